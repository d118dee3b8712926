package alter

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// An Algorithm is how a server executes an ALTER TABLE.
type Algorithm string

// The algorithms of servers.
const (
	Instant Algorithm = "INSTANT" // changes the data dictionary alone
	Inplace Algorithm = "INPLACE"
	Copied  Algorithm = "COPY"    // copies the rows within the server, which blocks writes
	Unknown Algorithm = "UNKNOWN" // only an ALTER of the table itself can show it
)

// A Verdict is how the server executes clauses, as observed on the probe.
type Verdict struct {
	Text      string    `json:"text"`
	Algorithm Algorithm `json:"algorithm"`
	Lock      string    `json:"lock"`    // of the table while it is altered: none, shared (no writes), or unknown
	Rebuild   bool      `json:"rebuild"` // all rows are written again
	Index     bool      `json:"index"`   // an index is built
	Why       string    `json:"why"`     // the server's reason against a better algorithm; empty: there is none
	Error     string    `json:"error"`   // the clauses cannot be executed; empty: they can
}

// sized reports whether the time that the clauses take depends on the size of the table.
func (v *Verdict) sized() bool { return v.Rebuild || v.Index || v.Algorithm == Copied }

// A Judgement predicts the effects of an ALTER TABLE.
type Judgement struct {
	Whole   Verdict   `json:"whole"`
	Clauses []Verdict `json:"clauses"`

	Rows        int64    `json:"rows_estimate"`
	Bytes       int64    `json:"bytes_estimate"` // with indexes
	RowVersions int64    `json:"row_versions"`   // MySQL: INSTANT changes of columns since the table was last rebuilt; -1: unknown
	SampleRows  int64    `json:"sample_rows"`    // rows that were written to measure the rate
	Seconds     float64  `json:"copy_seconds"`   // that writing all rows would take at that rate, without indexes; 0: unknown
	Replication string   `json:"replication"`    // what replicas do
	Plain       string   `json:"plain_alter"`    // the ALTER TABLE that does it where a copy is refused; empty: a copy is not refused
	CopyRefused string   `json:"copy_refused"`   // why the rows cannot be copied to a shadow table; empty: they can
	Revert      WayBack  `json:"revert"`         // how a copy could be reverted
	Notes       []string `json:"notes"`          // differences between the copy and a plain ALTER TABLE
}

// sampleRows is how many rows the probe gets.
const sampleRows = 2000

// A judge executes clauses on a probe.
type judge struct {
	c     *mysqlconn.Client
	s     *Statement
	t     *rowstream.Table
	name  string // of the probe, in Schema
	maria bool

	after *rowstream.Table // the probe, altered by all clauses; nil: they were not executed
}

// newJudge returns a judge of a statement. Its connection is one of connect.
func newJudge(c *mysqlconn.Client, s *Statement, t *rowstream.Table) *judge {
	sum := sha256.Sum256([]byte(s.fullName()))
	return &judge{c: c, s: s, t: t, name: fmt.Sprintf("alter_probe_%x", sum[:8]), maria: session.IsMariaDB(c.ServerVersion)}
}

func (j *judge) quotedName() string { return session.Ident(Schema) + "." + session.Ident(j.name) }

// judge returns what the statement would do. It writes the probe alone, and drops it.
func (j *judge) judge(ctx context.Context) (*Judgement, error) {
	g := &Judgement{Rows: j.t.RowsEstimate, Clauses: []Verdict{}, Notes: []string{}, RowVersions: -1, Revert: WayBack{Lossy: []string{}}}
	if err := j.size(ctx, g); err != nil {
		return nil, err
	}
	if _, err := j.c.Exec(ctx, "CREATE DATABASE IF NOT EXISTS "+session.Ident(Schema)); err != nil {
		return nil, fmt.Errorf("create the schema of the probe: %w; GRANT ALL ON %s.* TO its account", err, session.Ident(Schema))
	}
	defer j.drop(ctx)
	if err := j.sample(ctx, g); err != nil {
		return nil, err
	}
	if err := j.clauses(ctx, g); err != nil {
		return nil, err
	}
	if err := j.create(ctx); err != nil {
		return nil, err
	}
	if _, err := j.fill(ctx, 100); err != nil {
		return nil, err
	}
	var err error
	switch has := func(is func(Clause) bool) bool { return slices.ContainsFunc(j.s.Clauses, is) }; {
	case has(func(c Clause) bool { return c.checked }):
		g.Whole = Verdict{Algorithm: Copied, Lock: "shared", Why: foreignKeys}
	case has(func(c Clause) bool { return c.named }):
		g.Whole = Verdict{Algorithm: Unknown, Lock: "unknown"}
	default:
		if g.Whole, err = j.try(ctx, j.s.Clauses); err != nil {
			return nil, err
		}
	}
	if g.Whole.Error == "" && g.Whole.Algorithm != Unknown && g.Whole.Why != foreignKeys {
		if j.after, err = rowstream.ReadTable(ctx, j.c, Schema, j.name); err != nil {
			return nil, err
		}
	}
	g.Whole.Text = j.s.Text
	g.Replication = replication(&g.Whole)
	return g, nil
}

// replication returns what replicas do with a statement that is executed so.
func replication(v *Verdict) string {
	switch {
	case v.Algorithm == Instant:
		return "replicas execute it at once"
	case v.Algorithm == Inplace && !v.sized():
		return "replicas execute it in about the time that it takes here"
	case v.Algorithm == Unknown:
		return "unknown"
	}
	return "by ALTER TABLE, replicas lag by about the time that it takes here; by a copy, they apply its rows as they come"
}

// size reads the size of the table, and MySQL's count of its row versions.
func (j *judge) size(ctx context.Context, g *Judgement) error {
	_, err := j.c.Query(ctx, "SELECT COALESCE(DATA_LENGTH, 0) + COALESCE(INDEX_LENGTH, 0) FROM information_schema.TABLES WHERE "+j.t.SchemaCondition(), func(row mysqlwire.TextRow) error {
		_, err := fmt.Sscan(string(row[0]), &g.Bytes)
		return err
	})
	if err != nil {
		return err
	}
	if err := j.fileSize(ctx, g); err != nil || j.maria {
		return err
	}
	_, err = j.c.Query(ctx, "SELECT TOTAL_ROW_VERSIONS FROM information_schema.INNODB_TABLES WHERE NAME = "+session.SchemaText(j.t.Schema+"/"+j.t.Name), func(row mysqlwire.TextRow) error {
		_, err := fmt.Sscan(string(row[0]), &g.RowVersions)
		return err
	})
	return unlessUnseen(err) // by a server older than 8.0.29, too
}

// fileSize raises the size to that of the table's files: statistics lag behind after many rows were inserted.
func (j *judge) fileSize(ctx context.Context, g *Judgement) error {
	view := "INNODB_TABLESPACES"
	if j.maria {
		view = "INNODB_SYS_TABLESPACES"
	}
	name := j.t.Schema + "/" + j.t.Name
	_, err := j.c.Query(ctx, "SELECT COALESCE(SUM(FILE_SIZE), 0) FROM information_schema."+view+" WHERE NAME = "+session.SchemaText(name)+
		" OR LOWER(LEFT(NAME, CHAR_LENGTH("+session.SchemaText(name+"#p#")+"))) = LOWER("+session.SchemaText(name+"#p#")+")", // partitions
		func(row mysqlwire.TextRow) error {
			var files int64
			_, err := fmt.Sscan(string(row[0]), &files)
			g.Bytes = max(g.Bytes, files)
			return err
		})
	return unlessUnseen(err)
}

// unlessUnseen returns err, or nil if the server lacks what was queried, or refuses it to accounts without PROCESS.
func unlessUnseen(err error) error {
	if session.IsUnseen(err) {
		return nil
	}
	return err
}

// create drops the probe if it exists and creates it.
func (j *judge) create(ctx context.Context) error {
	for _, sql := range []string{"DROP TABLE IF EXISTS " + j.quotedName(), "CREATE TABLE " + j.quotedName() + " LIKE " + j.t.SQLName()} {
		if _, err := j.c.Exec(ctx, sql); err != nil {
			return fmt.Errorf("create the probe %s: %w; GRANT ALL ON %s.* TO its account", j.quotedName(), err, session.Ident(Schema))
		}
	}
	return nil
}

func (j *judge) drop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	_, _ = j.c.Exec(ctx, "DROP TABLE IF EXISTS "+j.quotedName()) // the next probe replaces it
}

// fill copies rows into the probe.
func (j *judge) fill(ctx context.Context, most int) (rows int64, err error) {
	names := make([]string, len(j.t.Columns))
	for i := range j.t.Columns {
		names[i] = j.t.Columns[i].Name
	}
	err = session.Set(ctx, j.c, session.Usual(j.c, "sql_mode")...)
	var result mysqlconn.Result
	if err == nil {
		result, err = j.c.Exec(ctx, fmt.Sprintf("INSERT INTO %s (%s) SELECT %[2]s FROM %s LIMIT %d", j.quotedName(), session.Idents(names), j.t.SQLName(), most))
	}
	if err == nil {
		err = session.Set(ctx, j.c, serversOwn("sql_mode"))
	}
	if err != nil {
		return 0, fmt.Errorf("copy a sample of %s into the probe: %w", j.t.FullName(), err)
	}
	return int64(result.AffectedRows), nil
}

// sample measures at which rate rows are written.
func (j *judge) sample(ctx context.Context, g *Judgement) (err error) {
	if err := j.create(ctx); err != nil {
		return err
	}
	began := time.Now()
	if g.SampleRows, err = j.fill(ctx, sampleRows); err != nil {
		return err
	}
	if g.SampleRows > 0 {
		g.Seconds = time.Since(began).Seconds() * float64(max(g.Rows, g.SampleRows)) / float64(g.SampleRows)
	}
	return nil
}

// clauses executes the clauses on the probe, one after another.
func (j *judge) clauses(ctx context.Context, g *Judgement) error {
	for _, c := range j.s.Clauses {
		v := Verdict{Algorithm: Unknown, Lock: "unknown", Why: "it names a constraint, which the probe does not have under that name"}
		switch {
		case c.checked:
			v = Verdict{Algorithm: Copied, Lock: "shared", Why: foreignKeys}
		case !c.named:
			var err error
			if v, err = j.try(ctx, []Clause{c}); err != nil {
				return err
			}
		}
		v.Text = c.Text
		g.Clauses = append(g.Clauses, v)
	}
	return nil
}

// instantly is the algorithm that changes the data dictionary alone.
const instantly = "ALGORITHM=INSTANT"

// instantlyOn returns instantly for a server. MariaDB before 11.2 accepts ALGORITHM=INSTANT for another engine, partitions and ORDER BY, and
// copies the rows, unless LOCK=NONE is asked for too; MySQL refuses a LOCK beside INSTANT.
func instantlyOn(c *mysqlconn.Client) string {
	if session.IsMariaDB(c.ServerVersion) {
		return instantly + ", LOCK=NONE"
	}
	return instantly
}

// An attempt is an algorithm with a lock.
type attempt struct {
	sql       string
	algorithm Algorithm
	lock      string
}

// attempts are the algorithms and locks in the order in which they are tried.
var attempts = []attempt{
	{instantly, Instant, "none"},
	{"ALGORITHM=INPLACE, LOCK=NONE", Inplace, "none"},
	{"ALGORITHM=INPLACE, LOCK=SHARED", Inplace, "shared"},
	{"ALGORITHM=COPY", Copied, "shared"},
}

// try executes clauses on the probe by the best algorithm that the server supports. An error of the clauses is part of the verdict.
func (j *judge) try(ctx context.Context, clauses []Clause) (v Verdict, err error) {
	v.Index = slices.ContainsFunc(clauses, func(c Clause) bool { return c.index })
	before, err := j.tableID(ctx)
	if err != nil {
		return v, err
	}
	for _, a := range attempts {
		sql := a.sql
		if a.algorithm == Instant {
			sql = instantlyOn(j.c)
		}
		_, err := j.c.Exec(ctx, alters(j.quotedName(), clauses, sql))
		if reason, ok := unsupported(err); ok {
			if !strings.Contains(v.Why, reason) {
				v.Why = strings.TrimPrefix(v.Why+"; "+reason, "; ")
			}
			continue
		}
		var refused *mysqlconn.ServerError
		switch {
		case errors.As(err, &refused):
			v.Algorithm, v.Lock, v.Error = Unknown, "unknown", j.renamed(refused.Error())
			return v, nil
		case err != nil:
			return v, err
		}
		v.Algorithm, v.Lock = a.algorithm, a.lock
		after, err := j.tableID(ctx)
		v.Rebuild = a.algorithm != Instant && (before != after || before == "")
		return v, err
	}
	v.Algorithm, v.Lock, v.Error = Unknown, "unknown", "the server supports no algorithm for it: "+v.Why
	return v, nil
}

// renamed returns a message about the probe with the name of the table in its place.
func (j *judge) renamed(message string) string {
	return strings.NewReplacer("`"+Schema+"`.`"+j.name+"`", "`"+j.t.Schema+"`.`"+j.t.Name+"`", j.name, j.t.Name).Replace(message)
}

// tableID returns InnoDB's number of the probe, which changes when it is rebuilt; empty if the account may not read it.
func (j *judge) tableID(ctx context.Context) (string, error) {
	view := "INNODB_TABLES"
	if j.maria {
		view = "INNODB_SYS_TABLES"
	}
	pattern := strings.ReplaceAll(Schema+"/"+j.name, "_", `\_`) + "%"
	id, err := session.QueryValue(ctx, j.c, "SELECT GROUP_CONCAT(TABLE_ID ORDER BY TABLE_ID) FROM information_schema."+view+" WHERE NAME LIKE "+session.SchemaText(pattern))
	return id, unlessUnseen(err)
}
