// Package testbucket is an S3 server in memory for tests, and a proxy that does to requests of an S3 client what
// networks and overloaded stores do: it refuses, stalls, cuts, damages and lies.
//
// The fault of a request depends on the seed, on the request and on how often it was sent, not on the order in
// which requests arrive: a run with the same seed and the same requests has the same faults.
package testbucket
