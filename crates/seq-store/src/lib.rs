//! StoreSvr: the Raft-replicated keeper of section ceilings.
