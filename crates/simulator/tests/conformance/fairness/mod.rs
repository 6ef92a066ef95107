//! `equipoise` is fair: compares the time that each thread of random and of known loads gets with
//! the exact ideal.

mod cases;
mod ideal;
mod load;
mod random;
mod table;
