package storeapi

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/taredb/tare/internal/teststore"
)

// shared are blocks that several tests read.
var shared teststore.Shared

func TestMain(m *testing.M) {
	RegisterSnappy()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		shared.Remove()
		os.Exit(code)
	}))
}
