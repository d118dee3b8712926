package rowstream_test

import (
	"errors"
	"testing"

	"go.uber.org/goleak"
)

var errFiltered = errors.New("rows are missing")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
