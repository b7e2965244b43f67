//! Custom resources and the foreign Cluster API kinds Kedge reads.
