package rollup_test

import (
	"log"
	"os"
	"testing"

	"github.com/taredb/tare/internal/testdir"
)

func TestMain(m *testing.M) {
	if err := testdir.UseMemory(); err != nil { // files are synced
		log.Fatal(err)
	}
	os.Exit(m.Run())
}
