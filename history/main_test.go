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

// faultyEnv makes the test binary the process whose system calls fail; its value is the directory of a faultyDay.
const faultyEnv = "TARE_TEST_FAULTY"

func TestMain(m *testing.M) {
	if err := testdir.UseMemory(); err != nil { // heads, ledgers and blocks are synced
		log.Fatal(err)
	}
	if os.Getenv(panickedEnv)+os.Getenv(faultyEnv) != "" {
		os.Exit(m.Run()) // a TSDB that panics while it closes, or that does not open, leaves its log open
	}
	goleak.VerifyTestMain(m)
}
