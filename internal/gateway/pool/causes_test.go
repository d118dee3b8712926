package pool

import (
	"strings"
	"testing"

	"github.com/taredb/tare/mysql/sqldigest"
)

func TestCauseOf(t *testing.T) {
	for sql, want := range map[string]Cause{
		"CREATE TEMPORARY TABLE t (a INT)":                  {KindTempTable, "t", DoesCreate},
		"create or replace temporary table `t` (a int)":     {KindTempTable, "t", DoesCreate},
		"CREATE TEMPORARY TABLE IF NOT EXISTS s.t SELECT 1": {KindTempTable, "s.t", DoesCreate},
		"CREATE TEMPORARY TABLE `a.b` (a INT)":              {KindTempTable, "", DoesAnything},
		"CREATE TABLE t (a INT)":                            {},
		"DROP TEMPORARY TABLE t":                            {KindTempTable, "t", DoesEnd},
		"DROP TABLE IF EXISTS t;":                           {KindTempTable, "t", DoesEnd},
		"DROP TABLE t, u":                                   {KindTempTable, "", DoesAnything},
		"DROP TABLE t /* */ CASCADE":                        {KindTempTable, "", DoesAnything},
		"DROP TABLE `t":                                     {KindTempTable, "", DoesAnything},
		"DROP DATABASE t":                                   {},
		"ALTER TABLE t RENAME TO u":                         {KindTempTable, "", DoesAnything},
		"RENAME TABLE t TO u":                               {KindTempTable, "", DoesAnything},
		"PREPARE p FROM 'SELECT 1'":                         {KindPrepared, "p", DoesCreate},
		"EXECUTE p":                                         {},
		"DEALLOCATE PREPARE p":                              {KindPrepared, "p", DoesEnd},
		"DROP PREPARE p":                                    {KindPrepared, "p", DoesEnd},
		"SELECT GET_LOCK('a', 0)":                           {KindNamedLock, "'a'", DoesAdd},
		"DO get_lock('a', -1);":                             {KindNamedLock, "'a'", DoesAdd},
		"SELECT GET_LOCK('a', 0) FROM t":                    {KindNamedLock, "", DoesAnything},
		"SELECT GET_LOCK(a, 0)":                             {KindNamedLock, "", DoesAnything},
		"SELECT RELEASE_LOCK('a')":                          {KindNamedLock, "'a'", DoesEnd},
		"SELECT RELEASE_LOCK('a'), GET_LOCK('b', 0)":        {KindNamedLock, "", DoesAnything},
		"SELECT RELEASE_ALL_LOCKS()":                        {KindNamedLock, "", DoesEndAll},
		"SELECT RELEASE_ALL_LOCKS() = GET_LOCK('a', 1)":     {KindNamedLock, "", DoesAnything},
		"SELECT 1, GET_LOCK('a', 0)":                        {},
		"HANDLER s.t OPEN":                                  {KindHandler, "t", DoesCreate},
		"HANDLER t OPEN AS h":                               {KindHandler, "h", DoesCreate},
		"HANDLER t OPEN h":                                  {KindHandler, "h", DoesCreate},
		"HANDLER h READ FIRST":                              {KindHandler, "", DoesUse},
		"HANDLER h CLOSE":                                   {KindHandler, "h", DoesEnd},
		"XA START 'x'":                                      {KindXA, "", DoesCreate},
		"XA COMMIT 'x'":                                     {KindXA, "", DoesEndAll},
		"XA ROLLBACK 'x'":                                   {KindXA, "", DoesEndAll},
		"XA PREPARE 'x'":                                    {KindXA, "", DoesCreate},
		"XA RECOVER":                                        {KindXA, "", DoesUse},
		"DROP TEMPORARY TABLE t; CREATE TEMPORARY TABLE u (a INT)": {KindTempTable, "", DoesAnything},
		"":         {},
		"SELECT 1": {},
	} {
		if got := CauseOf([]byte(sql), sqldigest.Mode(0).WithServer(sqldigest.ParseServer("10.11.6-MariaDB"))); got != want {
			t.Errorf("%s: %+v, want %+v", sql, got, want)
		}
	}
}

// FuzzCauseOf requires that a cause has a name which the text contains, and that what follows a statement that ends one makes it unknown.
func FuzzCauseOf(f *testing.F) {
	for _, sql := range []string{"DROP TEMPORARY TABLE `a`.b", "SELECT RELEASE_LOCK('a')", "HANDLER t OPEN AS h", "DEALLOCATE PREPARE p;", "DROP TABLE`00", "CREATE OR REPLACE TEMPORARY TABLE t (a INT)"} {
		f.Add(sql, uint64(0))
	}
	f.Fuzz(func(t *testing.T, sql string, modes uint64) {
		m := sqldigest.Mode(0).WithServer(sqldigest.ParseServer([]string{"10.11.6-MariaDB", "9.7.4"}[modes%2]))
		c := CauseOf([]byte(sql), m)
		part := c.Name[strings.LastIndexByte(c.Name, '.')+1:]
		if !strings.Contains(sql, part) {
			t.Errorf("%q: name %q", sql, c.Name)
		}
		if c.Does == DoesEnd {
			if more := CauseOf([]byte(sql+"\n, another"), m); more.Does == DoesEnd {
				t.Errorf("%q ends %q although more follows", sql, more.Name)
			}
		}
	})
}
