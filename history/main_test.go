package history

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(panickedEnv) != "" {
		os.Exit(m.Run()) // a TSDB that panics while it closes leaves its log open
	}
	goleak.VerifyTestMain(m)
}
