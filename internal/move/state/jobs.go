package state

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// maxJobs is the maximum number of tables that Jobs returns.
const maxJobs = 1000

// A Job is the recorded state of one table that was copied or is being copied to a target. Its JSON is
// stable.
type Job struct {
	Target  string `json:"target"` // schema and table, and the number of the source if several are merged
	Source  string `json:"source"` // identity of the server that the rows come from
	Spec    string `json:"spec"`   // the rows and columns; may contain values of a condition
	Phase   string `json:"phase"`  // copying, indexing or finished
	Version int    `json:"version"`

	Chunks  int64 `json:"chunks"`  // cut so far
	Copied  int64 `json:"copied"`  // copied so far
	Rows    int64 `json:"rows"`    // in copied chunks
	AllCut  bool  `json:"all_cut"` // the last chunk is cut
	Indexes int   `json:"indexes"` // left out, and created after the rows

	Started  time.Time  `json:"started"`
	Finished *time.Time `json:"finished,omitempty"`
}

// Jobs returns the copies recorded in a target, the latest first. schema is the schema of the records, "" for
// DefaultStateSchema. It writes nothing and waits for no lock; a target without records has no jobs. It reads
// each row of the chunks' table once, which suits pages but not polling.
func Jobs(ctx context.Context, c *mysqlconn.Client, schema string) ([]Job, error) {
	s := State{Schema: cmp.Or(schema, DefaultStateSchema)}
	if err := session.ReadOnly(ctx, c); err != nil {
		return nil, fmt.Errorf("read copies from schema %s: %w", session.Ident(s.Schema), err)
	}
	jobs := []Job{}
	_, err := c.Query(ctx, "SELECT t.target_schema, t.target_table, t.version, t.source, t.spec, t.phase, t.indexes, t.started, t.finished,"+
		" COALESCE(k.chunks, 0), COALESCE(k.copied, 0), COALESCE(k.copied_rows, 0), COALESCE(k.ends, 0) FROM "+s.Tables()+" t LEFT JOIN ("+
		"SELECT target_schema, target_table, COUNT(*) AS chunks, SUM(copied) AS copied, SUM(row_count) AS copied_rows, SUM(upto_key IS NULL) AS ends FROM "+
		s.chunks()+" GROUP BY target_schema, target_table) k ON k.target_schema = t.target_schema AND k.target_table = t.target_table"+
		" ORDER BY t.started DESC, t.target_schema, t.target_table LIMIT "+strconv.Itoa(maxJobs), func(row mysqlwire.TextRow) error {
		j, err := readJob(row)
		jobs = append(jobs, j)
		return err
	})
	var refused *mysqlconn.ServerError
	if errors.As(err, &refused) && (refused.Number == errNoSuchTable || refused.Number == mysqlwire.ErrnoUnknownDatabase) {
		return jobs, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read copies from schema %s: %w", session.Ident(s.Schema), err)
	}
	return jobs, nil
}

// readJob parses a row of Jobs' statement.
func readJob(row mysqlwire.TextRow) (Job, error) {
	j := Job{
		Target: string(row[0]) + "." + strings.TrimSuffix(string(row[1]), " "), Source: string(row[3]), Spec: string(row[4]), Phase: string(row[5]),
		Indexes: strings.Count(string(row[6]), "\n"), AllCut: string(row[12]) != "0",
	}
	var errs [5]error
	j.Version, errs[0] = strconv.Atoi(string(row[2]))
	j.Chunks, errs[1] = strconv.ParseInt(string(row[9]), 10, 64)
	j.Copied, errs[2] = strconv.ParseInt(string(row[10]), 10, 64)
	j.Rows, errs[3] = strconv.ParseInt(string(row[11]), 10, 64)
	j.Started, errs[4] = time.Parse(time.DateTime, string(row[7]))
	err := errors.Join(errs[:]...)
	if err == nil && row[8] != nil {
		var end time.Time
		end, err = time.Parse(time.DateTime, string(row[8]))
		j.Finished = &end
	}
	if err != nil {
		return j, fmt.Errorf("copy to %s: %w", j.Target, err)
	}
	return j, nil
}
