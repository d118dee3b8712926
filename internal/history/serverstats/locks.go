package serverstats

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
)

const (
	maxEdges   = 2000 // of one reading
	maxPileUps = 4    // of one reading
	maxWaiting = 16   // waiting sessions whose statements are read
	keptWaits  = 32
)

// A LockKind is the kind of a lock.
type LockKind string

// The kinds of locks.
const (
	RowLock      LockKind = "row"
	MetadataLock LockKind = "metadata"
	GlobalLock   LockKind = "global" // of all tables, such as that of FLUSH TABLES WITH READ LOCK or a backup; Table is ""
)

// A LockWait has the sessions that wait, directly or not, for locks of one session.
type LockWait struct {
	From, To time.Time // start of the longest wait, and the last reading that found it
	Kind     LockKind
	Table    string // schema.table, of most of the waits
	Holder   Holder
	Waiters  int                // sessions, the most of one reading
	Longest  time.Duration      // wait
	Waiting  []sqldigest.Digest // statements that wait, a few
}

// A Holder is a session that holds locks and waits for none.
type Holder struct {
	Connection  uint32 // 0: the server does not report the holder, and the other fields are zero
	User        string
	Client      string        // address; of the gateway's client if it is connected through the gateway
	Transaction time.Duration // age; 0: unknown
	Idle        bool          // it runs no statement
	Digest      sqldigest.Digest
	Text        string // normalized text of its last statement; "": unknown
	TextCut     bool   // the server has only the beginning of the text: Digest is zero
}

// An edge is a wait of one session for another.
type edge struct {
	waiter, holder uint32 // holder is 0 if it is unknown
	kind           LockKind
	table          string
}

// A pileUp has the sessions that wait for one session.
type pileUp struct {
	holder  uint32
	waiters []uint32
	kind    LockKind
	table   string
}

// pileUps returns the sessions that hold locks and wait for none, those with the most waiting sessions first.
func pileUps(edges []edge) []pileUp {
	waitsFor := make(map[uint32][]edge) // by holder
	waiting := make(map[uint32]bool)
	for _, e := range edges {
		if e.waiter != e.holder {
			waitsFor[e.holder] = append(waitsFor[e.holder], e)
			waiting[e.waiter] = true
		}
	}
	var all []pileUp
	for holder := range waitsFor {
		if waiting[holder] {
			continue
		}
		reached := make(map[uint32]bool)
		type object struct {
			kind  LockKind
			table string
		}
		objects := make(map[object]int)
		for next := []uint32{holder}; len(next) > 0; next = next[1:] {
			for _, e := range waitsFor[next[0]] {
				if objects[object{e.kind, e.table}]++; !reached[e.waiter] {
					reached[e.waiter] = true
					next = append(next, e.waiter)
				}
			}
		}
		most := slices.MaxFunc(slices.Collect(maps.Keys(objects)), func(a, b object) int {
			return cmp.Or(objects[a]-objects[b], strings.Compare(b.table, a.table), strings.Compare(string(a.kind), string(b.kind)))
		})
		all = append(all, pileUp{holder, slices.Sorted(maps.Keys(reached)), most.kind, most.table})
	}
	slices.SortFunc(all, func(a, b pileUp) int { return cmp.Or(len(b.waiters)-len(a.waiters), cmp.Compare(a.holder, b.holder)) })
	return all[:min(len(all), maxPileUps)]
}

// readEdges reads the waits for row and metadata locks. The note is the reason for which some have no holder.
func readEdges(ctx context.Context, conn *mysqlconn.Client, server sqldigest.ServerKind, tablesOf func(text, schema string) []string) (edges []edge, note string, err error) {
	if server == sqldigest.ServerMySQL {
		edges, err = queryEdges(ctx, conn, RowLock, rowWaitsMySQL)
	} else {
		edges, err = queryEdges(ctx, conn, RowLock, rowWaitsMariaDB)
	}
	if err != nil {
		return nil, "", err
	}
	metadata, err := queryEdges(ctx, conn, MetadataLock, metadataWaits)
	if err != nil {
		return nil, "", err
	}
	global, err := queryEdges(ctx, conn, GlobalLock, globalWaits)
	if err != nil {
		return nil, "", err
	}
	metadata = append(metadata, global...)
	if server == sqldigest.ServerMariaDB && len(metadata) == 0 {
		if metadata, note, err = metadataOfMariaDB(ctx, conn, tablesOf); err != nil {
			return nil, "", err
		}
	}
	return append(edges, metadata...), note, nil
}

// Each of the queries returns the connections that wait and hold, schema and table.
var (
	rowWaitsMySQL = fmt.Sprintf(`SELECT r.PROCESSLIST_ID, b.PROCESSLIST_ID, l.OBJECT_SCHEMA, l.OBJECT_NAME
		FROM performance_schema.data_lock_waits w
		JOIN performance_schema.data_locks l ON l.ENGINE_LOCK_ID = w.REQUESTING_ENGINE_LOCK_ID AND l.ENGINE = w.ENGINE
		JOIN performance_schema.threads r ON r.THREAD_ID = w.REQUESTING_THREAD_ID
		JOIN performance_schema.threads b ON b.THREAD_ID = w.BLOCKING_THREAD_ID
		WHERE r.PROCESSLIST_ID IS NOT NULL AND b.PROCESSLIST_ID IS NOT NULL LIMIT %d`, maxEdges)

	rowWaitsMariaDB = fmt.Sprintf("SELECT r.trx_mysql_thread_id, b.trx_mysql_thread_id, '', l.lock_table"+`
		FROM information_schema.innodb_lock_waits w
		JOIN information_schema.innodb_trx r ON r.trx_id = w.requesting_trx_id
		JOIN information_schema.innodb_trx b ON b.trx_id = w.blocking_trx_id
		JOIN information_schema.innodb_locks l ON l.lock_id = w.requested_lock_id LIMIT %d`, maxEdges)

	// A granted lock is in the way if it or the requested one is exclusive in some way, or if its session waits too: then
	// that session's request is in the way.
	metadataWaits = fmt.Sprintf(`SELECT pt.PROCESSLIST_ID, gt.PROCESSLIST_ID, p.OBJECT_SCHEMA, p.OBJECT_NAME
		FROM performance_schema.metadata_locks p
		JOIN performance_schema.metadata_locks g ON g.OBJECT_TYPE = p.OBJECT_TYPE AND g.OBJECT_SCHEMA = p.OBJECT_SCHEMA
			AND g.OBJECT_NAME = p.OBJECT_NAME AND g.OWNER_THREAD_ID <> p.OWNER_THREAD_ID
		JOIN performance_schema.threads pt ON pt.THREAD_ID = p.OWNER_THREAD_ID
		JOIN performance_schema.threads gt ON gt.THREAD_ID = g.OWNER_THREAD_ID
		WHERE p.LOCK_STATUS = 'PENDING' AND g.LOCK_STATUS = 'GRANTED' AND p.OBJECT_TYPE = 'TABLE'
			AND pt.TYPE = 'FOREGROUND' AND gt.TYPE = 'FOREGROUND' AND pt.PROCESSLIST_USER <> 'system user' AND gt.PROCESSLIST_ID IS NOT NULL
			AND (p.LOCK_TYPE IN (%[2]s) OR g.LOCK_TYPE IN (%[2]s) OR EXISTS (SELECT 1 FROM performance_schema.metadata_locks o
				WHERE o.OWNER_THREAD_ID = g.OWNER_THREAD_ID AND o.LOCK_STATUS = 'PENDING'))
		LIMIT %[1]d`, maxEdges, "'EXCLUSIVE', 'SHARED_NO_READ_WRITE', 'SHARED_NO_WRITE', 'SHARED_READ_ONLY'")

	// Locks of statements that write do not conflict with each other.
	globalWaits = fmt.Sprintf(`SELECT pt.PROCESSLIST_ID, gt.PROCESSLIST_ID, '', ''
		FROM performance_schema.metadata_locks p
		JOIN performance_schema.metadata_locks g ON g.OBJECT_TYPE = p.OBJECT_TYPE AND g.OWNER_THREAD_ID <> p.OWNER_THREAD_ID
		JOIN performance_schema.threads pt ON pt.THREAD_ID = p.OWNER_THREAD_ID
		JOIN performance_schema.threads gt ON gt.THREAD_ID = g.OWNER_THREAD_ID
		WHERE p.LOCK_STATUS = 'PENDING' AND g.LOCK_STATUS = 'GRANTED' AND p.OBJECT_TYPE IN ('GLOBAL', 'COMMIT', 'BACKUP', 'BACKUP LOCK')
			AND pt.TYPE = 'FOREGROUND' AND gt.TYPE = 'FOREGROUND' AND pt.PROCESSLIST_USER <> 'system user' AND gt.PROCESSLIST_ID IS NOT NULL
			AND (p.LOCK_TYPE IN (%[2]s)) <> (g.LOCK_TYPE IN (%[2]s))
		LIMIT %[1]d`, maxEdges, quoted(append([]string{"SHARED"}, backupModes...)))
)

// backupModes are the modes of MariaDB's backup lock that block statements which write.
var backupModes = []string{
	"BACKUP_START", "BACKUP_FLUSH", "BACKUP_WAIT_FLUSH", "BACKUP_WAIT_DDL", "BACKUP_WAIT_COMMIT", "BACKUP_FTWRL1", "BACKUP_FTWRL2", "BACKUP_BLOCK_DDL",
}

// quoted returns a list of literals.
func quoted(words []string) string { return "'" + strings.Join(words, "', '") + "'" }

func queryEdges(ctx context.Context, conn *mysqlconn.Client, kind LockKind, text string) ([]edge, error) {
	var all []edge
	err := query(ctx, conn, text, func(row mysqlwire.TextRow) error {
		e := edge{kind: kind}
		var schema, table string
		err := scan(row, &e.waiter, &e.holder, &schema, &table)
		if kind != GlobalLock {
			e.table = tableName(schema, table)
		}
		all = append(all, e)
		return err
	})
	if n := ErrorNumber(err); n == noSuchTable || n == unknownTable { // of another version
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read waits for locks: %w", err)
	}
	return all, nil
}

// tableName joins schema and table; without a schema the table is "`schema`.`table`".
func tableName(schema, table string) string {
	if schema != "" {
		return schema + "." + table
	}
	schema, table, _ = strings.Cut(table, ".")
	unquoted := strings.NewReplacer("``", "`", "`", "")
	return unquoted.Replace(schema) + "." + unquoted.Replace(table)
}

// The time for which a statement has run before its wait is reported without a holder: the performance schema may not have had it
// yet when it was read.
const unreported = time.Second

// A mariaWaiter is a session that waits for a metadata lock or a global one.
type mariaWaiter struct {
	id      uint32
	global  bool
	tables  []string // of its statement
	ddl     bool
	running time.Duration // of its statement
}

// metadataOfMariaDB reads the waits for metadata and global locks from the plugin metadata_lock_info, which has no requested
// locks: those are the tables of the waiting statements, or all tables by the state of the session. Without the plugin the holder
// of a global lock is the idle session whose last statement took one, and others are unknown.
func metadataOfMariaDB(ctx context.Context, conn *mysqlconn.Client, tablesOf func(text, schema string) []string) (edges []edge, note string, err error) {
	var waiters []mariaWaiter
	err = querySessions(ctx, conn, func(row mysqlwire.TextRow) error {
		var w mariaWaiter
		var schema, state, text string
		var millis float64
		if err := scan(row, &w.id, &schema, &state, &millis, &text); err != nil {
			return err
		}
		w.running = time.Duration(millis * float64(time.Millisecond))
		if w.global = state != "Waiting for table metadata lock"; !w.global {
			var d sqldigest.Digester
			d.Digest([]byte(text), sqldigest.Mode(0))
			verb, _, _ := strings.Cut(string(d.Text()), " ")
			w.ddl = !slices.Contains([]string{"SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE", "WITH", "("}, verb)
			w.tables = tablesOf(string(d.Text()), schema)
		}
		waiters = append(waiters, w)
		return nil
	}, fmt.Sprintf("SELECT ID, DB, STATE, TIME_MS, INFO FROM information_schema.processlist WHERE STATE IN ('Waiting for table metadata lock', "+
		"'Waiting for backup lock', 'Waiting for global read lock', 'Waiting for commit lock') LIMIT %d", maxEdges))
	if err != nil || len(waiters) == 0 {
		return nil, "", err
	}
	waits := func(id uint32) bool {
		return slices.ContainsFunc(waiters, func(w mariaWaiter) bool { return w.id == id })
	}
	err = querySessions(ctx, conn, func(row mysqlwire.TextRow) error {
		var holder uint32
		var kind, mode, schema, table string
		if err := scan(row, &holder, &kind, &mode, &schema, &table); err != nil {
			return err
		}
		mode = strings.TrimPrefix(mode, "MDL_")
		name := schema + "." + table
		global := kind != "Table metadata lock"
		strong := slices.Contains([]string{"EXCLUSIVE", "SHARED_NO_READ_WRITE", "SHARED_NO_WRITE", "SHARED_READ_ONLY"}, mode)
		for _, w := range waiters {
			switch {
			case w.id == holder || len(edges) == maxEdges:
			case global && w.global && (mode == "SHARED" || slices.Contains(backupModes, mode)):
				edges = append(edges, edge{w.id, holder, GlobalLock, ""})
			case !global && !w.global && (strong || w.ddl || waits(holder)) && slices.ContainsFunc(w.tables, func(t string) bool { return strings.EqualFold(t, name) }):
				edges = append(edges, edge{w.id, holder, MetadataLock, name})
			}
		}
		return nil
	}, fmt.Sprintf("SELECT THREAD_ID, LOCK_TYPE, LOCK_MODE, TABLE_SCHEMA, TABLE_NAME FROM information_schema.metadata_lock_info"+
		" WHERE LOCK_TYPE IN ('Table metadata lock', 'Backup lock', 'Global read lock', 'Commit lock') LIMIT %d", maxEdges))
	if n := ErrorNumber(err); n == noSuchTable || n == unknownTable {
		return withoutPlugin(ctx, conn, waiters)
	}
	return edges, "", err
}

// withoutPlugin returns the waits of sessions whose holders are unknown, except that of a global lock if it is the only session
// whose last statement took one.
func withoutPlugin(ctx context.Context, conn *mysqlconn.Client, waiters []mariaWaiter) (edges []edge, note string, err error) {
	var holders []uint32
	if slices.ContainsFunc(waiters, func(w mariaWaiter) bool { return w.global }) {
		err := querySessions(ctx, conn, func(row mysqlwire.TextRow) error {
			var holder uint32
			holders = append(holders, 0)
			err := scan(row, &holder)
			holders[len(holders)-1] = holder
			return err
		}, globalHolders)
		if n := ErrorNumber(err); err != nil && n != noSuchTable && n != unknownTable {
			return nil, "", err
		}
	}
	for _, w := range waiters {
		e := edge{waiter: w.id, kind: MetadataLock}
		switch {
		case w.global:
			e.kind = GlobalLock
			if len(holders) == 1 {
				e.holder = holders[0]
			}
		case len(w.tables) > 0:
			e.table = w.tables[0]
		}
		if e.holder != 0 || w.running >= unreported {
			edges = append(edges, e)
		}
		switch {
		case e.holder != 0:
		case w.global:
			note = "Sessions wait for a global lock; MariaDB does not report its holder: INSTALL SONAME 'metadata_lock_info' once it is released, since that waits for it too."
		case note == "":
			note = "Sessions wait for metadata locks; MariaDB does not report their holder: INSTALL SONAME 'metadata_lock_info'."
		}
	}
	return edges, note, nil
}

// globalHolders returns the idle sessions whose last statement took a global lock. They still hold it: only a later statement can release
// it.
const globalHolders = `SELECT t.PROCESSLIST_ID
	FROM performance_schema.events_statements_current s JOIN performance_schema.threads t ON t.THREAD_ID = s.THREAD_ID
	WHERE t.PROCESSLIST_COMMAND = 'Sleep' AND s.ERRORS = 0 AND s.SQL_TEXT RLIKE
		'^[[:space:]]*(flush[[:space:]]+((local|no_write_to_binlog)[[:space:]]+)?tables?[[:space:]]+with[[:space:]]+read[[:space:]]+lock|backup[[:space:]]+stage[[:space:]]+(start|flush|block_))'
	LIMIT 2`

// querySessions calls read for each row of a statement about sessions.
func querySessions(ctx context.Context, conn *mysqlconn.Client, read func(row mysqlwire.TextRow) error, text string) error {
	if err := query(ctx, conn, text, read); err != nil {
		return fmt.Errorf("read sessions: %w", err)
	}
	return nil
}

// A session is a session of the server.
type session struct {
	user, host string
	idle       bool
	running    time.Duration // time of its statement or pause
	text       string
}

// readSessions reads sessions by their connections.
func readSessions(ctx context.Context, conn *mysqlconn.Client, server sqldigest.ServerKind, ids []uint32) (map[uint32]session, error) {
	text := "SELECT ID, USER, HOST, COMMAND, TIME, INFO FROM information_schema.processlist WHERE ID IN "
	if server == sqldigest.ServerMySQL {
		text = "SELECT PROCESSLIST_ID, PROCESSLIST_USER, PROCESSLIST_HOST, PROCESSLIST_COMMAND, PROCESSLIST_TIME, PROCESSLIST_INFO FROM performance_schema.threads WHERE PROCESSLIST_ID IN "
	}
	all := make(map[uint32]session)
	err := querySessions(ctx, conn, func(row mysqlwire.TextRow) error {
		var id uint32
		var s session
		var command string
		var seconds float64
		err := scan(row, &id, &s.user, &s.host, &command, &seconds, &s.text)
		s.idle, s.running = command == "Sleep", time.Duration(max(seconds, 0)*float64(time.Second))
		all[id] = s
		return err
	}, text+list(ids))
	return all, err
}

// A transaction has the ages of a transaction and of its wait for a row lock.
type transaction struct{ age, wait time.Duration }

// readTransactions reads the transactions of connections.
func readTransactions(ctx context.Context, conn *mysqlconn.Client, ids []uint32) (map[uint32]transaction, error) {
	all := make(map[uint32]transaction)
	err := querySessions(ctx, conn, func(row mysqlwire.TextRow) error {
		var id uint32
		var age, wait int64
		err := scan(row, &id, &age, &wait)
		all[id] = transaction{max(time.Duration(age)*time.Microsecond, 0), max(time.Duration(wait)*time.Microsecond, 0)}
		return err
	}, "SELECT trx_mysql_thread_id, TIMESTAMPDIFF(MICROSECOND, trx_started, NOW(6)), TIMESTAMPDIFF(MICROSECOND, trx_wait_started, NOW(6))"+
		" FROM information_schema.innodb_trx WHERE trx_mysql_thread_id IN "+list(ids))
	return all, err
}

// lastStatement returns the text of a session's statement, the running one or the last; "" if the server does not keep it. cut
// reports that it may have only the beginning.
func lastStatement(ctx context.Context, conn *mysqlconn.Client, id uint32) (text string, cut bool, err error) {
	limit := 0
	err = querySessions(ctx, conn, func(row mysqlwire.TextRow) error { return scan(row, &text, &limit) }, fmt.Sprintf(
		"SELECT s.SQL_TEXT, @@performance_schema_max_sql_text_length FROM performance_schema.events_statements_current s JOIN performance_schema.threads t ON t.THREAD_ID = s.THREAD_ID WHERE t.PROCESSLIST_ID = %d ORDER BY s.EVENT_ID LIMIT 1", id))
	return text, len(text) > limit-utf8.UTFMax, err
}

func list(ids []uint32) string {
	var b strings.Builder
	b.WriteByte('(')
	for i, id := range ids {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, id)
	}
	b.WriteByte(')')
	return b.String()
}
