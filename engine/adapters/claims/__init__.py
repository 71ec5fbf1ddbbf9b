"""Claims on GPUs, held where every deck of this box can see them."""
