package mysqlwire_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/taredb/tare/internal/testmysql"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testmysql.Main(m)) }
