//! Pages of a small cluster, as text.
