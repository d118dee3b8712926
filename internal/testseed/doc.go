// Package testseed seeds the randomness of tests: each seed is printed, and can be given.
//
// A test that fails prints its seed; TARE_TEST_SEED=n go test -run … repeats the run with it. Tests
// whose cases are fixed need no seed of this package: a constant does.
package testseed
