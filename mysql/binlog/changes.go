package binlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/retry"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

const (
	// lull is how long a batch waits for more events at the end of the log.
	lull = 2 * time.Millisecond

	// maxLinger is the maximum time to fill a batch while more events arrive.
	maxLinger = 100 * time.Millisecond

	// Pauses between attempts to reconnect.

	// firstServerID is the first of the ids from which readers choose at random: above the ids that operators
	// usually assign.
	firstServerID = 3 << 30
)

// Errors of servers about the log.
const (
	errLogin      = 1045
	errReadingLog = 1236
)

// ErrNoPosition is the error for FollowOptions without a position.
var ErrNoPosition = errors.New("follow the binary log: no start position")

// A changes reads a server's binary log: a logReader and the connection that feeds it.
type changes struct {
	d       *Direct
	o       FollowOptions
	columns []int // of the returned rows, by table
	r       logReader

	life context.Context // until Close
	end  context.CancelFunc

	stale atomic.Bool // the connection must be abandoned

	mu     sync.Mutex        // locked while Next runs; guards the rest and r
	events *mysqlconn.Events // nil: not requested
	after  Position          // start of the file after one that is cut off, from which to continue; zero: none
	err    error             // that stopped the reader
}

var (
	_ Follower = (*Direct)(nil)
	_ Changes  = (*changes)(nil)
)

// Follow implements Follower.
func (d *Direct) Follow(ctx context.Context, o FollowOptions) (Changes, error) {
	o.BatchBytes = cmp.Or(o.BatchBytes, DefaultFollowBytes)
	o.PreparedBytes = cmp.Or(o.PreparedBytes, 32<<20)
	o.Heartbeat = cmp.Or(o.Heartbeat, DefaultHeartbeat)
	o.Patience = cmp.Or(o.Patience, session.DefaultPatience)
	if o.ServerID == 0 {
		o.ServerID = randomServerID()
	}
	if o.From.IsZero() {
		return nil, ErrNoPosition
	}
	c := &changes{d: d, o: o, r: logReader{statementText: statementText{ignore: o.Ignore}, names: make(map[string]int)}}
	var err error
	if o.Run != "" && o.From.GTID == "" && o.From.Heartbeat == "" {
		if o.From, err = d.namePosition(ctx, o.From); err != nil {
			return nil, fmt.Errorf("follow the binary log: %w", err)
		}
	}
	if err := c.startAt(o.From); err != nil {
		return nil, fmt.Errorf("follow the binary log: %w", err)
	}
	if err := c.layOut(ctx); err != nil {
		return nil, fmt.Errorf("follow the binary log: %w", err)
	}
	c.r.resetConnection()
	if err := c.connect(ctx); err != nil {
		return nil, err
	}
	c.life, c.end = context.WithCancel(context.Background())
	return c, nil
}

// startAt prepares reading the log from a position.
func (c *changes) startAt(p Position) (err error) {
	r := &c.r
	if r.gtids, err = parseGTIDs(p.GTID); err != nil {
		return err
	}
	r.uptoFile, r.uptoOffset, r.skip, r.xas.most = p.File, p.Offset, c.o.Skip, c.o.PreparedBytes
	r.maps = make(map[uint64]*tableMap)
	r.beats.start(c.o.Run, rowstream.Schemas(c.o.Tables))
	r.beats.mark, err = parseMark(p.Heartbeat)
	return err
}

func randomServerID() uint32 { return firstServerID + rand.Uint32N(math.MaxUint32-firstServerID) }

// namePosition adds the GTID at a position of the server's log. With it, reading can resume at another
// server, and the position can be compared with those of other servers. The server reads its log file up to
// the position.
func (d *Direct) namePosition(ctx context.Context, p Position) (named Position, err error) {
	err = d.Use(ctx, func(c *mysqlconn.Client) (err error) {
		named, err = withGTID(ctx, d.Config(), c, p)
		return err
	})
	return named, err
}

// layOut reads the current columns of the tables. It returns an error for a table that has changed since its
// description, unless it is described by an earlier definition. Later changes are in the log.
func (c *changes) layOut(ctx context.Context) error {
	conn, err := session.Connect(ctx, c.d.Config())
	if err != nil {
		return err
	}
	defer conn.Close()
	logged, err := logsCascades(ctx, conn)
	if err != nil {
		return err
	}
	for i, t := range c.o.Tables {
		f, err := c.o.followed(ctx, conn, i)
		if err != nil {
			return err
		}
		c.r.tables = append(c.r.tables, f)
		if other, ok := c.r.names[f.schema+"\x00"+f.name]; ok {
			return fmt.Errorf("tables %s and %s are one, whose changes can be followed once: leave one of them out", c.o.Tables[other].FullName(), t.FullName())
		}
		c.r.names[f.schema+"\x00"+f.name] = i
		if err := c.r.cascades.add(c.o.Tables, i, !logged); err != nil {
			return err
		}
		c.columns = append(c.columns, f.columns())
	}
	return nil
}

// at returns an element of a list, or the zero value if i is out of range.
func at[T any](list []T, i int) (v T) {
	if i < len(list) {
		v = list[i]
	}
	return v
}

// followed returns a table with its current columns, or those of Layouts, and its other options.
func (o *FollowOptions) followed(ctx context.Context, conn *mysqlconn.Client, table int) (f followedTable, err error) {
	t := o.Tables[table]
	if layout := at(o.Layouts, table); layout != nil {
		f = followedTable{table: t, schema: t.Schema, name: t.Name, all: layout}
		err = f.findName(ctx, conn)
	} else {
		f, err = layOut(ctx, conn, t)
	}
	if err != nil {
		return f, err
	}
	if f.defined, err = newPlace(at(o.Defined, table)); err != nil {
		return f, err
	}
	if f.start, err = newPlace(at(o.Starts, table)); err != nil {
		return f, err
	}
	if plan := at(o.Plans, table); plan != nil {
		if f.filter, err = rowstream.NewFilter(plan, len(t.Columns)); err != nil {
			return f, fmt.Errorf("plan of %s: %w", t.FullName(), err)
		}
	}
	if columns := at(o.Before, table); columns != nil {
		f.before = make([]bool, f.columns())
		for _, column := range columns {
			f.before[column] = true
		}
	}
	return f, nil
}

// connect requests the events after the last group that was read.
func (c *changes) connect(ctx context.Context) (err error) {
	at := c.r.position().Place()
	conn, err := session.Connect(ctx, c.d.Config())
	if err == nil {
		if err = checkLog(ctx, conn, rowstream.Schemas(c.o.Tables)); err == nil {
			c.events, err = c.dump(ctx, conn)
		}
		if err != nil {
			_ = conn.Close()
		}
	}
	if err != nil {
		return fmt.Errorf("follow the binary log after %s: %w", at, err)
	}
	return nil
}

// dump requests the events on a new connection.
func (c *changes) dump(ctx context.Context, conn *mysqlconn.Client) (*mysqlconn.Events, error) {
	settings := dumpSettings(c.o.Heartbeat)
	at, known, err := c.r.replayFrom()
	if err != nil {
		return nil, err
	}
	if !c.after.IsZero() {
		at, known = c.after, gtids{}
	}
	if known.mode == mariaGTIDs {
		settings = append(settings, "SET @slave_connect_state = "+session.Literal(at.GTID)+
			", @slave_gtid_strict_mode = 0, @slave_gtid_ignore_duplicates = 0")
	}
	if err := setForDump(ctx, conn, settings); err != nil {
		return nil, err
	}
	var dump []byte
	switch {
	case known.mode == mariaGTIDs:
		dump = mysqlwire.BinlogDump{ServerID: c.o.ServerID, Offset: 4}.AppendTo(nil)
	case known.mode == mysqlGTIDs:
		dump = mysqlwire.BinlogDumpGTID{Flags: mysqlwire.BinlogThroughGTID, ServerID: c.o.ServerID, Offset: 4, Set: known.appendSet(nil)}.AppendTo(nil)
	case at.Offset > math.MaxUint32:
		return nil, fmt.Errorf("offset %d of %s is beyond the 4 GiB that the protocol knows, and the position has no GTID", at.Offset, at.File)
	default:
		dump = mysqlwire.BinlogDump{ServerID: c.o.ServerID, Offset: uint32(at.Offset), File: []byte(at.File)}.AppendTo(nil)
	}
	events, err := conn.DumpBinlog(ctx, mysqlwire.RegisterReplica{ServerID: c.o.ServerID, Host: []byte("tare")}, dump)
	if err == nil {
		c.after = Position{}
	}
	return events, err
}

// dumpSettings returns the statements that prepare a connection for events.
func dumpSettings(heartbeat time.Duration) []string {
	period := heartbeat.Nanoseconds()
	return []string{
		"SET @master_binlog_checksum = @@global.binlog_checksum, @source_binlog_checksum = @@global.binlog_checksum",
		fmt.Sprintf("SET @master_heartbeat_period = %d, @source_heartbeat_period = %d", period, period),
		"SET @mariadb_slave_capability = 4",
	}
}

// setForDump executes the statements that prepare a connection for events.
func setForDump(ctx context.Context, conn *mysqlconn.Client, settings []string) error {
	for _, sql := range settings {
		_, err := conn.Exec(ctx, sql)
		if session.IsUnknownVariable(err) {
			continue // a server without checksums
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Next implements Changes.
func (c *changes) Next(ctx context.Context, b *ChangeBatch) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return c.err
	case c.life.Err() != nil:
		return ErrClosed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	c.r.startBatch(b, c.columns, 2*c.o.BatchBytes)
	both, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.life, func() { cancel(ErrClosed) })()
	var err error
	if c.r.reread != nil {
		err = c.readAgain(both, b)
	} else {
		err = c.fill(both)
	}
	c.hold()
	final := err != nil && both.Err() == nil
	if final {
		c.err = err
		cut(b, c.r.first) // the group that cannot be read to its end
	}
	if err != nil && !c.r.moved && len(b.Changes) == 0 {
		return err
	}
	c.r.finishBatch()
	if final {
		b.Boundary = c.r.handed == 0 && c.r.reread == nil
		if _, held := c.r.resume(); !held {
			b.Skip = c.r.handed
		}
	}
	return nil // the next call returns the error, if any
}

// ErrClosed is the error of closed Changes.
var ErrClosed = errors.New("the reading of the binary log was closed")

// fill reads events until the batch must be returned.
func (c *changes) fill(ctx context.Context) error {
	var began time.Time // when the batch got its first change
	for c.r.batch.size() < c.o.BatchBytes {
		wait := 3 * c.o.Heartbeat
		if c.reports() {
			if began.IsZero() {
				began = time.Now()
			}
			if time.Since(began) > maxLinger {
				return nil
			}
			wait = lull
		}
		raw, err := c.receive(ctx, wait)
		if errors.Is(err, mysqlconn.ErrQuiet) {
			return nil
		}
		if err != nil {
			return err
		}
		if raw == nil {
			continue
		}
		heartbeat, err := c.r.read(raw)
		if err != nil || c.r.reread != nil || c.r.only != nil && c.r.only.ended {
			return err
		}
		if heartbeat && c.r.between() {
			c.r.batch.Idle = true
			return nil
		}
	}
	if c.events != nil && c.events.ReleaseWide() { // its rows are in the batch
		debug.FreeOSMemory() // the event is as large as the rows; a process that follows must not grow by both for good
	}
	return nil
}

// receive returns the next event, or nil if the connection was lost. After a wait of lull it returns mysqlconn.ErrQuiet;
// after a longer one the connection counts as lost.
func (c *changes) receive(ctx context.Context, wait time.Duration) ([]byte, error) {
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	raw, err := c.events.Next(ctx, wait)
	switch {
	case err == nil || errors.Is(err, mysqlconn.ErrQuiet) && wait == lull:
		return raw, err
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, c.disconnect(ctx, err)
}

// reports reports whether the batch can be returned as it is: no group is incomplete, there is something to return, and no event is buffered.
func (c *changes) reports() bool {
	return c.r.between() && (c.r.moved || len(c.r.batch.Changes) > 0) && (c.events == nil || !c.events.Buffered())
}

// ready ensures that there is a connection that is not stale.
func (c *changes) ready(ctx context.Context) error {
	if c.stale.Swap(false) && c.events != nil {
		if err := c.disconnect(ctx, errStale); err != nil {
			return err
		}
	}
	if c.events == nil {
		return c.reconnect(ctx)
	}
	return nil
}

// errStale is the error of a connection that does not receive the writes to the source.
var errStale = errors.New("the stream of events is stale")

// Reconnect abandons the connection and requests the log again, which must prove to be the same. It may be
// called while Next runs, and takes effect with its next event or timeout.
func (c *changes) Reconnect() { c.stale.Store(true) }

// disconnect closes the connection, unless its error is permanent.
func (c *changes) disconnect(ctx context.Context, err error) error {
	var refused *mysqlconn.ServerError
	if errors.As(err, &refused) {
		refuse := c.refusal
		if isCut(refused) {
			refuse = func(e *mysqlconn.ServerError) error { return c.skipCut(ctx, e) }
		}
		if err := refuse(refused); err != nil {
			return err
		}
	}
	_ = c.events.Close() // it is lost
	c.events = nil
	c.r.resetConnection()
	if !c.after.IsZero() { // the log has proven to be the same up to the cut
		c.r.beats.replays, c.r.beats.await = false, ""
		c.r.file, c.r.offset = c.after.File, c.after.Offset
	}
	return nil
}

// refusal returns the permanent error of a server, or nil.
func (c *changes) refusal(e *mysqlconn.ServerError) error {
	switch {
	case e.Number == errReadingLog:
		return c.r.stop(StopLogGone, "", "the server cannot read its log from there", tryCopyAgain, e)
	case session.Denied(e.Number), e.Number == errLogin:
		return fmt.Errorf("follow the binary log of %s after %s: %w; if the account's privileges or password were changed: GRANT REPLICATION SLAVE ON *.* TO it, "+
			"correct option from, and run the same command again: it resumes here", c.d.Addr(), c.r.position().Place(), e)
	}
	return nil
}

// reconnect tries to connect until the patience is over.
func (c *changes) reconnect(ctx context.Context) error {
	if c.o.Waiting != nil {
		defer c.o.Waiting(c.o.Patience)()
	}
	return retry.Within(ctx, c.o.Patience, func() error {
		err := c.connect(ctx)
		switch {
		case errors.Is(err, session.ErrLogUnseen):
			return retry.Final(c.r.stop(StopSettings, "", "the account may no longer see whether "+c.d.Addr()+" logs all changes",
				"grant it what it has lost, and run the same command again: it resumes here", errors.Unwrap(err)))
		case IsSetting(err):
			return retry.Final(c.r.stop(StopSettings, "", "the server that was reached again does not log all changes",
				"have it log them, and copy the tables again if some were made meanwhile", errors.Unwrap(err)))
		}
		if refused := new(mysqlconn.ServerError); errors.As(err, &refused) {
			if refusal := c.refusal(refused); refusal != nil {
				return retry.Final(refusal)
			}
		}
		return err
	})
}

// Close implements Changes.
func (c *changes) Close() error {
	c.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.r.unpack.close()
	err := c.r.reread.close()
	if c.events != nil {
		err = errors.Join(err, c.events.Close())
		c.events = nil
	}
	return err
}
