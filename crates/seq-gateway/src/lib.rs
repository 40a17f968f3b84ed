//! The doors onto one Frontend: gRPC now, HTTP and RESP later.
