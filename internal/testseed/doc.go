// Package testseed seeds the randomness of tests: each seed is printed, and can be set.
//
// A test that fails prints its seed; TARE_TEST_SEED=n go test -run … repeats the run with it. Tests with
// fixed cases use a constant instead.
package testseed
