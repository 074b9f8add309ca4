mod cost;
mod machine;
mod model;
mod patterns;
mod workers;
