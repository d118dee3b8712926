package history_test

import (
	"log"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/taredb/tare/internal/testdir"
)

// panickedEnv is set in the process of TestChunkWriteFails.
const panickedEnv = "TARE_TEST_PANICKED"

func TestMain(m *testing.M) {
	if err := testdir.UseMemory(); err != nil { // heads, ledgers and blocks are synced
		log.Fatal(err)
	}
	if os.Getenv(panickedEnv) != "" {
		os.Exit(m.Run()) // a TSDB that panics while it closes leaves its log open
	}
	goleak.VerifyTestMain(m)
}
