mod ideal;
mod load;
mod random;
mod table;
