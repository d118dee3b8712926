package storegateway_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/taredb/tare/internal/store/storeapi"
	"github.com/taredb/tare/internal/teststore"
)

// shared are blocks that several tests read.
var shared teststore.Shared

func TestMain(m *testing.M) {
	storeapi.RegisterSnappy()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		shared.Remove()
		os.Exit(code)
	}))
}
