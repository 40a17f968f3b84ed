//! AllocSvr: hands sequence numbers out from memory.
