package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taredb/tare/internal/gateway/switchover"
	"github.com/taredb/tare/internal/netloop"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A next is a session's prepared connection to the other side.
type next struct {
	to   *target
	conn *mysqlconn.Client // nil if the session shares connections
	ids  map[uint32]uint32 // the other side's number of each prepared statement, by the client's number
}

// discardNext closes the new connection.
func (s *session) discardNext() {
	if n := s.next; n != nil {
		s.next = nil
		if n.conn == nil {
			return
		}
		s.srv.ids.drop(n.conn.ConnectionID, &s.shown)
		s.task.Block(func() { n.conn.Close() })
	}
}

// connectNext opens the session's connection to the other side within a pause. A nil error means that the
// session is ready to move, or to be closed if that was requested.
func (s *session) connectNext(h *pause) error {
	if s.carried.pin.Load() != nil && h.closePinned {
		h.closing.Add(1)
		return nil
	}
	admitted := false
	s.task.Block(func() {
		select {
		case h.slots <- struct{}{}:
			admitted = true
		case <-h.done:
		}
	})
	if !admitted {
		return nil
	}
	defer func() { <-h.slots }()
	ctx, cancel := context.WithDeadline(s.srv.ctx, h.limit)
	defer cancel()
	err := s.connect(ctx, s.srv.targets[h.to], &h.checks)
	var pinned *pin
	if h.closePinned && errors.As(err, &pinned) {
		h.closing.Add(1)
		return nil
	}
	if err != nil {
		return fmt.Errorf("the session of user %q, connection %d: %w", s.modes.user, s.connID, err)
	}
	return nil
}

// connect sets s.next: a connection to the other side in the same state as the current one, verified by
// queries on both servers.
func (s *session) connect(ctx context.Context, to *target, checks *sharedChecks) error {
	if p := s.carried.pin.Load(); p != nil {
		return p
	}
	if s.pooled {
		return s.leaveShared(ctx, to, checks)
	}
	if p := s.statements.pinned(s.modes.mode); p != nil {
		return p
	}
	limit, _ := ctx.Deadline()
	if err := s.setDeadlines(limit, causeMove|causeDrain|causeIdle); err != nil {
		return err
	}
	defer func() { _ = s.clearDeadlines(causeMove | causeDrain | causeIdle) }() // the next use reports a socket error
	here, err := s.queryState()
	if err != nil {
		return err
	}
	s.task.Block(func() { err = s.connectLike(ctx, to, here) })
	return err
}

// connectLike sets s.next, in the state of the session's current connection.
func (s *session) connectLike(ctx context.Context, to *target, here sessionState) (err error) {
	n := &next{to: to}
	n.conn, err = s.logInNext(ctx, to)
	for range s.srv.ids.attempts() {
		if err != nil || s.srv.ids.take(n.conn.ConnectionID, &s.shown) {
			break
		}
		n.conn.Close()
		n.conn, err = s.logInNext(ctx, to)
	}
	if err != nil {
		return err
	}
	if err = n.bring(ctx, here, &s.carried, &s.statements); err != nil {
		s.srv.ids.drop(n.conn.ConnectionID, &s.shown)
		n.conn.Conn.Close()
		var pinned *pin
		if errors.As(err, &pinned) {
			return err
		}
		return fmt.Errorf("standby %s: %w", to.Addr, err)
	}
	s.next = n
	return nil
}

// bring brings the connection into the state of the session at its current server, and compares.
func (n *next) bring(ctx context.Context, here sessionState, c *carried, p *prepared) error {
	err := c.replay(ctx, n.conn, here.schema)
	if err == nil {
		n.ids, err = p.prepareOn(ctx, n.conn, here.schema)
	}
	if err == nil {
		err = here.setInsertID(ctx, n.conn)
	}
	var there sessionState
	if err == nil {
		there, err = stateOf(ctx, n.conn, isMaria(n.conn.ServerVersion))
	}
	if err == nil {
		err = here.compare(there)
	}
	if err == nil {
		err = n.conn.SetDeadline(time.Time{})
	}
	return err
}

// logInNext connects to the other side as the session's user.
func (s *session) logInNext(ctx context.Context, to *target) (*mysqlconn.Client, error) {
	password, ok := s.srv.opts.Password(s.modes.user)
	if !ok {
		return nil, fmt.Errorf("user %q is not in the file of accounts (option standby-accounts)", s.modes.user)
	}
	nc, err := s.srv.dial(ctx, to.Addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", to.Addr, dialReason(err))
	}
	login := mysqlconn.Login{
		User: s.modes.user, Password: password, Capabilities: s.caps, Charset: s.charset, MaxPacket: s.maxPacket, ServerKey: to.Key,
	}
	if to.TLS.Required() || to.TLS == mysqlconn.TLSPreferred && s.client.IsTLS() {
		login.TLS = to.tls.Load()
	}
	conn := mysqlconn.NewBuffer(netloop.NewConn(nc), make([]byte, backendBuffer))
	c, err := mysqlconn.LogIn(ctx, conn, login)
	if err != nil {
		nc.Close()
		if missing, ok := errors.AsType[*mysqlconn.MissingCapabilitiesError](err); ok {
			return nil, &pin{Reason: "standby " + to.Addr + ": " + missing.Error()}
		}
		if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
			return nil, fmt.Errorf("connect to %s: TLS: %w", to.Addr, err)
		}
		return nil, fmt.Errorf("connect to %s: %w", to.Addr, err)
	}
	return c, nil
}

// sharedChecks are the checks of a pause whether sessions that share connections can use the other side: one for the sessions
// whose state is the same.
type sharedChecks struct {
	mu   sync.Mutex
	done map[sharedCheck]func() error
}

// A sharedCheck is the state of the sessions that a check is for.
type sharedCheck struct {
	user     string
	class    class
	login    *loginState
	wasReset bool
	schema   string
	texts    string // of SET statements and prepared statements
}

// readyToLeave has a session that keeps its connection for the warnings of its last statement need nothing else of it but
// LAST_INSERT_ID(). Where no query that removes them is required, the warnings stay, for a switch that fails.
func (s *session) readyToLeave() error {
	l := &s.lease
	if s.modes.unknown || l.unsure && s.modes.maria {
		return s.expire()
	}
	if !l.unsure {
		return nil
	}
	l.pinged = true // a COM_PING removes ROW_COUNT() only
	pinned, err := s.confirm()
	if pinned {
		l.fresh, l.kept = true, keptByPin
		l.holds.Store(uint32(l.kept))
	}
	return err
}

// giveUpShared closes the connection that the session has kept for warnings.
func (s *session) giveUpShared() error {
	if s.lease.shared == nil {
		return nil
	}
	if s.lease.shared.Value.inserted {
		if err := s.takeInsertID(); err != nil {
			return err
		}
	}
	s.discardShared()
	return nil
}

// leaveShared checks that the session can use connections to the other side instead of its shared one, if it has one.
func (s *session) leaveShared(ctx context.Context, to *target, checks *sharedChecks) error {
	l := &s.lease
	if l.kept == keptByDiagnostics {
		if err := s.clearDeadlines(causeDrain | causeIdle | causeMove); err != nil {
			return err
		}
		if err := s.readyToLeave(); err != nil {
			return err
		}
	}
	if l.shared != nil && l.kept != keptByDiagnostics {
		return &pin{Reason: keptReasons[l.kept]}
	}
	key := sharedCheck{user: s.modes.user, class: s.classAt(to), login: l.login, wasReset: s.carried.wasReset, schema: s.modes.schema, texts: s.sharedTexts()}
	checks.mu.Lock()
	check := checks.done[key]
	if check == nil {
		check = sync.OnceValue(func() error { return s.checkShared(ctx, to) })
		if checks.done == nil {
			checks.done = make(map[sharedCheck]func() error)
		}
		checks.done[key] = check
	}
	checks.mu.Unlock()
	var err error
	s.task.Block(func() { err = check() })
	if err == nil {
		s.next = &next{to: to}
	}
	return err
}

// sharedTexts returns the texts of the SET statements and the prepared statements of the session.
func (s *session) sharedTexts() string {
	var b strings.Builder
	add := func(text []byte) { fmt.Fprintf(&b, "%d:%s", len(text), text) }
	for sql := range s.carried.sets.all() {
		add(sql)
	}
	for _, st := range s.statements.ordered() {
		add([]byte(st.schema))
		add(st.sql)
	}
	return b.String()
}

// checkShared brings a new connection to the other side into the state of the session.
func (s *session) checkShared(ctx context.Context, to *target) error {
	password, learned, err := s.poolAccount()
	if err != nil {
		return err
	}
	nc, err := s.srv.dial(ctx, to.Addr)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", to.Addr, dialReason(err))
	}
	defer nc.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = nc.SetDeadline(deadline)
	}
	c, err := s.logInOn(ctx, nc, to, s.classAt(to), password, learned)
	if missing, ok := errors.AsType[*mysqlconn.MissingCapabilitiesError](err); ok {
		return &pin{Reason: "standby " + to.Addr + ": " + missing.Error()}
	}
	if err != nil {
		return fmt.Errorf("connect to %s: %w", to.Addr, err)
	}
	there, err := stateOf(ctx, c, isMaria(c.ServerVersion))
	if err == nil {
		err = s.lease.login.state.compare(there)
	}
	if err == nil && s.carried.wasReset {
		err = c.Send(ctx, []byte{byte(mysqlwire.ComResetConnection)})
	}
	if err == nil && s.modes.schema != "" {
		err = useSchema(ctx, c, s.modes.schema)
	}
	for sql := range s.carried.sets.all() {
		if err == nil {
			_, err = c.ExecBytes(ctx, sql)
		}
	}
	if err == nil {
		_, err = s.statements.prepareOn(ctx, c, s.modes.schema)
	}
	if err != nil {
		return fmt.Errorf("standby %s: %w", to.Addr, err)
	}
	return c.Close()
}

// useSchema selects a schema by its name in UTF-8.
func useSchema(ctx context.Context, c *mysqlconn.Client, name string) (err error) {
	steps := []func() error{func() error { return c.Send(ctx, append([]byte{byte(mysqlwire.ComInitDB)}, name...)) }}
	if !isPlain([]byte(name)) {
		set := func(sql string) func() error {
			return func() error { _, err := c.Exec(ctx, sql); return err }
		}
		steps = []func() error{
			set("SET @_tare_charset = @@character_set_client, character_set_client = utf8mb4"), steps[0],
			set("SET character_set_client = @_tare_charset, @_tare_charset = NULL"),
		}
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("use schema %s: %w", name, err)
		}
	}
	return nil
}

// switchConn closes the session's old connection and continues with the new one. A session without a new
// connection, because it is pinned or missed the switch, is moved or closed by gated.
func (s *session) switchConn(side switchover.Side) error {
	n := s.next
	if n == nil {
		return nil
	}
	s.next = nil
	s.turnstile.enter(laneOf(side))
	if s.pooled {
		if err := s.giveUpShared(); err != nil {
			return err
		}
		s.aim(n.to)
		s.shown.connect(0, side)
		s.srv.moved.Add(1)
		return nil
	}
	s.switchBackend(n.conn.Conn)
	if s.connID != s.shown.greeted.Load() {
		s.srv.ids.drop(s.connID, &s.shown)
	}
	s.aim(n.to)
	s.connected(n.conn.ConnectionID, n.conn.ServerVersion)
	s.shown.connect(s.connID, side)
	s.moved = true
	s.statements.moveTo(n.ids)
	s.srv.moved.Add(1)
	return s.attach()
}

// moveAlone moves a session that the switch did not wait for: it was logging in. If it cannot be moved, it is
// closed.
func (s *session) moveAlone(side switchover.Side) error {
	ctx, cancel := context.WithTimeout(s.srv.ctx, s.srv.opts.HandshakeTimeout)
	defer cancel()
	err := s.connect(ctx, s.srv.targets[side], new(sharedChecks))
	if err == nil {
		return s.switchConn(side)
	}
	s.srv.closed.Add(1)
	return s.endPaused(&clientError{errno: mysqlwire.ErrnoServerShutdown, msg: fmt.Sprintf(
		"Tare goes to %s now, and this session cannot: %v", s.srv.targets[side].Addr, err)}, errNotMoved)
}

// sessionState is the state that two connections must share to be interchangeable.
type sessionState struct {
	values   []string // of stateNames
	schema   string
	insertID string
	inTrans  bool
}

// stateNames are the session variables that change the effects of statements.
var stateNames = [...]string{
	"character_set_client", "character_set_connection", "character_set_results", "collation_connection",
	"sql_mode", "autocommit", "foreign_key_checks", "unique_checks", "sql_auto_is_null", "sql_safe_updates",
	"sql_select_limit", "group_concat_max_len", "auto_increment_increment", "auto_increment_offset",
	"div_precision_increment", "lc_time_names", "default_week_format", "sql_log_bin", "time_zone", "transaction_isolation",
}

// stateBetween separates their values; an sql_mode cannot contain it.
const stateBetween = "|~|"

// stateQuery returns the query for the values in one row of three columns.
func stateQuery(maria bool) string {
	var b strings.Builder
	b.WriteString("SELECT CONCAT_WS('" + stateBetween + "'")
	for _, name := range stateNames {
		switch {
		case name == "time_zone":
			b.WriteString(", IF(@@session.time_zone='SYSTEM', @@system_time_zone, @@session.time_zone)")
		case name == "transaction_isolation" && maria:
			b.WriteString(", @@session.tx_isolation")
		default:
			b.WriteString(", IFNULL(@@session." + name + ", '')")
		}
	}
	b.WriteString(") AS s, CAST(CONVERT(DATABASE() USING utf8mb4) AS BINARY) AS d, @@session.last_insert_id AS i")
	return b.String()
}

func newState(row mysqlwire.TextRow, status mysqlwire.Status) sessionState {
	return sessionState{
		values: strings.Split(string(row[0]), stateBetween), schema: string(row[1]), insertID: string(row[2]),
		inTrans: status.Has(mysqlwire.StatusInTrans),
	}
}

// stateOf queries a new connection.
func stateOf(ctx context.Context, c *mysqlconn.Client, maria bool) (st sessionState, err error) {
	_, err = c.Query(ctx, stateQuery(maria), func(row mysqlwire.TextRow) error {
		st = newState(row, c.Status)
		return nil
	})
	return st, err
}

// setInsertID sets LAST_INSERT_ID() of another connection.
func (s sessionState) setInsertID(ctx context.Context, c *mysqlconn.Client) error {
	if s.insertID == "" || s.insertID == "0" {
		return nil
	}
	if _, err := c.Exec(ctx, "SET last_insert_id = "+s.insertID); err != nil {
		return fmt.Errorf("set LAST_INSERT_ID(): %w", err)
	}
	return nil
}

// compare returns an error that lists the differences on the other side.
func (s sessionState) compare(there sessionState) error {
	if len(s.values) != len(stateNames) || len(there.values) != len(stateNames) {
		return errors.New("the servers report different session states")
	}
	for i, name := range stateNames {
		here, there := s.values[i], there.values[i]
		if name == "sql_mode" && sameSet(here, there) {
			continue
		}
		if here != there {
			return fmt.Errorf("%s is %q here and %q there: give both servers the same default", name, here, there)
		}
	}
	if s.schema != there.schema {
		return fmt.Errorf("the default schema is %q here and %q there", s.schema, there.schema)
	}
	return nil
}

// sameSet reports whether two comma-separated lists have the same elements.
func sameSet(a, b string) bool {
	x, y := strings.Split(a, ","), strings.Split(b, ",")
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

// dialReason returns err without the words that repeat the address.
func dialReason(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}
