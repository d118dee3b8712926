package storegateway

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	RegisterSnappy()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if shared.root != "" {
			_ = os.RemoveAll(shared.root)
		}
		os.Exit(code)
	}))
}
