// stream - prints the times of one write(2) and one read(2) of a message of 100 bytes on a Unix stream socket, in
// ns: the best of 100 rounds. In each round a process writes 200 messages to itself, which the socket holds, and
// reads them.
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MESSAGES 200
#define ROUNDS 100

static long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void least(long *best, long ns)
{
	if (ns < *best)
		*best = ns;
}

int main(void)
{
	long best_write = 1L << 62, best_read = 1L << 62;
	char message[100] = {};
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) {
		perror("socketpair");
		return 1;
	}
	for (int round = 0; round < ROUNDS; round++) {
		long start = now(), written;

		for (int i = 0; i < MESSAGES; i++)
			if (write(ends[0], message, sizeof(message)) != sizeof(message))
				return 1;
		written = now();
		for (int i = 0; i < MESSAGES; i++)
			if (read(ends[1], message, sizeof(message)) != sizeof(message))
				return 1;
		least(&best_write, written - start);
		least(&best_read, now() - written);
	}
	printf("%ld %ld\n", best_write / MESSAGES, best_read / MESSAGES);
}
