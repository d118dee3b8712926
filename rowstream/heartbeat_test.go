package rowstream

import (
	"errors"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
)

// startOrSkip starts a server for a test, and skips the test if it requires MySQL and that is not installed.
func startOrSkip(t *testing.T, options ...testmysql.Option) *testmysql.Server {
	t.Helper()
	testmysql.SkipIfOff(t)
	server, err := testmysql.New(options...)
	if errors.Is(err, testmysql.ErrNoMySQL) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}
