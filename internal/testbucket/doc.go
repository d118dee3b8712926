// Package testbucket is an S3 server in memory for tests, and a proxy that injects the faults of networks and
// overloaded stores into requests of an S3 client: it refuses, stalls, truncates, damages and fakes
// responses.
//
// The fault of a request depends on the seed, on the request and on the number of its repetitions, not on the
// order in which requests arrive: a run with the same seed and the same requests has the same faults.
package testbucket
