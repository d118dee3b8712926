package stmtstats

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(killedEnv); dir != "" {
		observeUntilKilled(dir)
	}
	goleak.VerifyTestMain(m)
}
