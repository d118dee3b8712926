package alter

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// errDuplicateEntry is the error of a server for a row whose unique key another row has.
const errDuplicateEntry = 1062

// An addedKey is a unique key that the source does not have, and the columns of the source that it is of.
type addedKey struct {
	key     *newKeyError
	mapping *tabledef.Mapping
}

// duplicates adds to a refusal of a new unique key which values of it are there more than once now.
func (r *run) duplicates(ctx context.Context, m *tabledef.Mapping, refused error) string {
	var key *newKeyError
	if !errors.As(refused, &key) {
		return refused.Error()
	}
	r.added = &addedKey{key, m}
	found, err := r.duplicateValues(ctx)
	switch {
	case err != nil:
		return fmt.Sprintf("%v; whether values of it are there more than once is unknown: %v", refused, err)
	case len(found) == 0:
		return refused.Error() + "; no value of it is there more than once now"
	}
	return fmt.Sprintf("%v; values of it are there more than once now, so that it cannot be added before they are corrected: %s", refused, strings.Join(found, ", "))
}

// withDuplicates adds to a server's error for a duplicate, which names one value, which values of the new key are there more than
// once, and their rows.
func (r *run) withDuplicates(ctx context.Context, err error) error {
	var refused *mysqlconn.ServerError
	if r.added == nil || !errors.As(err, &refused) || refused.Number != errDuplicateEntry {
		return err
	}
	const again = "and run the same command again"
	found, failed := r.duplicateValues(ctx)
	switch {
	case failed != nil:
		return fmt.Errorf("%w; the table is unchanged; correct the duplicates %s; which they are is unknown: %w", err, again, failed)
	case len(found) == 0:
		return fmt.Errorf("%w; the table is unchanged; no value of the key is there more than once now: run the same command again", err)
	}
	return fmt.Errorf("%w; the table is unchanged; values of the key %s are there more than once: %s; correct them %s", err, r.added.key.name, strings.Join(found, ", "), again)
}

// duplicateValues returns three values of the added key that are there more than once, each with the number of its rows and the keys
// of five of them.
// The error is also one of a table that is too large to search for them in ten seconds.
func (r *run) duplicateValues(ctx context.Context) (found []string, err error) {
	list := make([]string, len(r.added.key.parts))
	for i, part := range r.added.key.parts {
		if list[i] = sourcePart(r.added.mapping, part); list[i] == "" {
			return nil, fmt.Errorf("%s is none of the table's columns", part)
		}
	}
	const limit = 10 // seconds
	first := "SELECT /*+ MAX_EXECUTION_TIME(" + fmt.Sprint(limit*1000) + ") */ "
	if session.IsMariaDB(r.c.ServerVersion) {
		first = "SET STATEMENT max_statement_time = " + fmt.Sprint(limit) + " FOR SELECT "
	}
	rows, name := "''", ""
	if len(r.t.Key) > 0 {
		key := make([]string, len(r.t.Key))
		for i, k := range r.t.Key {
			key[i] = session.Ident(r.t.Columns[k].Name)
		}
		rows = "SUBSTRING_INDEX(GROUP_CONCAT(CONCAT_WS('-', " + strings.Join(key, ", ") + ") ORDER BY " + strings.Join(key, ", ") + " SEPARATOR ', '), ', ', 5)"
		name = ": " + strings.Join(keyNames(r.t), "-") + " "
	}
	_, err = r.c.Query(ctx, first+"CONCAT_WS(', ', QUOTE(MIN("+strings.Join(list, ")), QUOTE(MIN(")+"))), COUNT(*), "+rows+" FROM "+r.s.quotedName()+
		" WHERE "+strings.Join(list, " IS NOT NULL AND ")+" IS NOT NULL GROUP BY "+strings.Join(list, ", ")+" HAVING COUNT(*) > 1 LIMIT 3", func(row mysqlwire.TextRow) error {
		found = append(found, fmt.Sprintf("%.60s (%s rows%s%.100s)", row[0], row[1], name, row[2]))
		return nil
	})
	return found, err
}
