package testseed

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Env is the environment variable that sets the seed.
const Env = "TARE_TEST_SEED"

// New returns the seed of the environment, or a random one, and logs it.
func New(tb testing.TB) uint64 {
	tb.Helper()
	seed := rand.Uint64()
	if given := os.Getenv(Env); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			tb.Fatalf("read the seed: %s=%s: %v", Env, given, err)
		}
	}
	tb.Logf("%s=%d repeats the random part", Env, seed)
	return seed
}

// Rand returns a source of random numbers with the seed of New.
func Rand(tb testing.TB) *rand.Rand {
	tb.Helper()
	return rand.New(rand.NewPCG(New(tb), 1))
}
