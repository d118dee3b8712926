package statements

import (
	"log"
	"testing"

	"go.uber.org/goleak"

	"github.com/taredb/tare/internal/testdir"
)

func TestMain(m *testing.M) {
	if err := testdir.UseMemory(); err != nil { // rollups and blocks are synced
		log.Fatal(err)
	}
	goleak.VerifyTestMain(m)
}
