package alter

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/rowstream"
)

// verdictClauses are forms that servers have executed otherwise than the algorithm that they accepted says.
var verdictClauses = []string{
	"ENGINE=MyISAM", "ENGINE=InnoDB", "PARTITION BY HASH (id) PARTITIONS 3", "REMOVE PARTITIONING", "FORCE", "ENGINE=Aria", "ADD COLUMN note VARCHAR(200)", "ADD COLUMN note INT FIRST",
	"MODIFY small BIGINT", "ADD INDEX kb (big)", "ROW_FORMAT=COMPACT", "COMMENT='x'", "CONVERT TO CHARACTER SET latin1", "RENAME COLUMN price TO cost", "ALTER COLUMN opt SET DEFAULT 5",
}

// verdictTables are the kinds of tables that they alter.
var verdictTables = []string{"InnoDB", "MyISAM", "partitioned"}

// TestVerdicts executes clauses as the verdict says, and compares it with the rows that the server counts as written: all
// of them by an algorithm that copies.
func TestVerdicts(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		for _, kind := range verdictTables {
			for i, clauses := range verdictClauses {
				if kind != "InnoDB" && i > 3 {
					break // make e2e tries all
				}
				d.verdict(clauses, kind, fmt.Sprintf("%s%d", strings.ToLower(kind), i))
			}
		}
	})
}

// verdict compares the verdict for a table of a kind with the execution.
func (d *database) verdict(clauses, kind, table string) {
	d.t.Helper()
	const rows = 250
	d.fillForms(table, rows)
	switch kind {
	case "MyISAM":
		d.exec("ALTER TABLE " + d.schema + "." + table + " ENGINE=MyISAM")
	case "partitioned":
		d.exec("ALTER TABLE "+d.schema+"."+table+" DROP INDEX uu", "ALTER TABLE "+d.schema+"."+table+" PARTITION BY RANGE (id) (PARTITION a VALUES LESS THAN (100), PARTITION b VALUES LESS THAN MAXVALUE)")
	}
	s, err := Parse(d.schema, table, clauses)
	if err != nil {
		d.t.Fatal(err)
	}
	c := d.connect()
	described, err := rowstream.ReadTable(d.t.Context(), c, d.schema, table)
	if err != nil {
		d.t.Fatal(err)
	}
	g, err := newJudge(c, s, described).judge(d.t.Context())
	if err != nil {
		d.t.Fatalf("%s of %s: %v", clauses, kind, err)
	}
	v := g.Whole
	at := slices.IndexFunc(attempts, func(a attempt) bool { return a.algorithm == v.Algorithm && a.lock == v.Lock })
	if at < 0 || v.Error != "" || v.Why == foreignKeys {
		return // nothing is said of how it would be done
	}
	sql := attempts[at].sql
	if v.Algorithm == Instant {
		sql = instantlyOn(c)
	}
	written := d.handlerWrites(c)
	if _, err := c.Exec(d.t.Context(), alters(s.quotedName(), s.Clauses, sql)); err != nil {
		d.t.Errorf("%s of %s: the probe took %s, and the table: %v", clauses, kind, sql, err)
		return
	}
	if written = d.handlerWrites(c) - written; written >= rows != (v.Algorithm == Copied) {
		d.t.Errorf("%s of %s: the verdict is %s, and the server has written %d rows", clauses, kind, v.Algorithm, written)
	}
}

// handlerWrites returns how many rows the server has written for the session.
func (d *database) handlerWrites(c *mysqlconn.Client) int {
	view := "performance_schema.session_status"
	if d.product == "MariaDB" {
		view = "information_schema.SESSION_STATUS"
	}
	n, err := strconv.Atoi(d.value(c, "SELECT VARIABLE_VALUE FROM "+view+" WHERE VARIABLE_NAME = 'Handler_write'"))
	if err != nil {
		d.t.Fatal(err)
	}
	return n
}
