//! `equipoise` is fair: what each thread of random and of known loads gets, against the exact ideal.

mod cases;
mod ideal;
mod load;
mod random;
mod table;
