//! The GPUs Warpsmith knows: their sizes and rates, and how many blocks of a kernel fit on each.
