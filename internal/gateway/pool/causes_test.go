package pool

import (
	"testing"

	"github.com/taredb/tare/mysql/sqldigest"
)

func TestCauseOf(t *testing.T) {
	for sql, want := range map[string]Cause{
		"CREATE TEMPORARY TABLE t (a INT)":                         {KindTempTable, "t", DoesCreate},
		"create or replace temporary table `t` (a int)":            {KindTempTable, "t", DoesCreate},
		"CREATE TEMPORARY TABLE IF NOT EXISTS s.t SELECT 1":        {KindTempTable, "s.t", DoesCreate},
		"CREATE TEMPORARY TABLE `a.b` (a INT)":                     {KindTempTable, "", DoesAnything},
		"CREATE TABLE t (a INT)":                                   {},
		"DROP TEMPORARY TABLE t":                                   {KindTempTable, "t", DoesEnd},
		"DROP TABLE IF EXISTS t;":                                  {KindTempTable, "t", DoesEnd},
		"DROP TABLE t, u":                                          {KindTempTable, "", DoesAnything},
		"DROP TABLE t /* */ CASCADE":                               {KindTempTable, "", DoesAnything},
		"DROP DATABASE t":                                          {},
		"ALTER TABLE t RENAME TO u":                                {KindTempTable, "", DoesAnything},
		"RENAME TABLE t TO u":                                      {KindTempTable, "", DoesAnything},
		"PREPARE p FROM 'SELECT 1'":                                {KindPrepared, "p", DoesCreate},
		"EXECUTE p":                                                {},
		"DEALLOCATE PREPARE p":                                     {KindPrepared, "p", DoesEnd},
		"DROP PREPARE p":                                           {KindPrepared, "p", DoesEnd},
		"SELECT GET_LOCK('a', 0)":                                  {KindNamedLock, "'a'", DoesAdd},
		"DO get_lock('a', -1);":                                    {KindNamedLock, "'a'", DoesAdd},
		"SELECT GET_LOCK('a', 0) FROM t":                           {KindNamedLock, "", DoesAnything},
		"SELECT GET_LOCK(a, 0)":                                    {KindNamedLock, "", DoesAnything},
		"SELECT RELEASE_LOCK('a')":                                 {KindNamedLock, "'a'", DoesEnd},
		"SELECT RELEASE_LOCK('a'), GET_LOCK('b', 0)":               {KindNamedLock, "", DoesAnything},
		"SELECT RELEASE_ALL_LOCKS()":                               {KindNamedLock, "", DoesEndAll},
		"SELECT RELEASE_ALL_LOCKS() = GET_LOCK('a', 1)":            {KindNamedLock, "", DoesAnything},
		"SELECT 1, GET_LOCK('a', 0)":                               {},
		"HANDLER s.t OPEN":                                         {KindHandler, "t", DoesCreate},
		"HANDLER t OPEN AS h":                                      {KindHandler, "h", DoesCreate},
		"HANDLER t OPEN h":                                         {KindHandler, "h", DoesCreate},
		"HANDLER h READ FIRST":                                     {KindHandler, "", DoesUse},
		"HANDLER h CLOSE":                                          {KindHandler, "h", DoesEnd},
		"XA START 'x'":                                             {KindXA, "", DoesCreate},
		"XA COMMIT 'x'":                                            {KindXA, "", DoesEndAll},
		"XA ROLLBACK 'x'":                                          {KindXA, "", DoesEndAll},
		"XA PREPARE 'x'":                                           {KindXA, "", DoesCreate},
		"XA RECOVER":                                               {KindXA, "", DoesUse},
		"DROP TEMPORARY TABLE t; CREATE TEMPORARY TABLE u (a INT)": {KindTempTable, "", DoesAnything},
		"":         {},
		"SELECT 1": {},
	} {
		if got := CauseOf([]byte(sql), sqldigest.Mode(0).WithServer(sqldigest.ParseServer("10.11.6-MariaDB"))); got != want {
			t.Errorf("%s: %+v, want %+v", sql, got, want)
		}
	}
}
