package gateway

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/taredb/tare/internal/netloop"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
	"github.com/taredb/tare/sizegen/heapsize"
)

// A gateway whose sessions share connections greets clients itself, before it knows their user: with the capabilities of the backend,
// an id and a challenge of its own. It authenticates the users of its accounts. Every other client gets a connection of its own, and
// responds to that connection's challenge.

// takeOwnID takes a connection id that no server assigns before a billion connections. It fits a signed integer, for which drivers such
// as MariaDB Connector/J take it, and is random: a KILL that arrives at another gateway finds no client there.
func (s *session) takeOwnID() (id uint32) {
	for taken := false; !taken; taken = s.srv.ids.take(id, &s.shown) {
		id = 1<<30 | mathrand.Uint32()>>2
	}
	return id
}

// greeting returns the backend's greeting, without its challenge.
func (l *login) greeting(ctx context.Context) (*mysqlwire.Handshake, error) {
	if h := l.to.greeting.Load(); h != nil {
		return h, nil
	}
	g, err := l.srv.openGreeted(ctx, l.to) // a spare one may be of another server
	if err != nil {
		return nil, l.refuse(l.unreachable(err))
	}
	h := g.hello
	l.to.greeting.Store(&h)
	l.to.spares.put(g)
	return &h, nil
}

// greetAlone greets the client.
func (l *login) greetAlone(ctx context.Context) error {
	h, err := l.greeting(ctx)
	if err != nil {
		return err
	}
	l.hello = *h
	l.hello.ConnectionID = l.takeOwnID()
	l.hello.AuthData = newChallenge()
	l.connected(l.hello.ConnectionID, string(l.hello.ServerVersion))
	return nil
}

// newChallenge returns random bytes that no client takes for the end of a string.
func newChallenge() []byte {
	b := make([]byte, challengeLen)
	_, _ = rand.Read(b)
	for i := range b {
		b[i] = b[i]%90 + '!' // printable
	}
	return b
}

// connectOwn connects a client that the gateway does not authenticate to the backend.
func (l *login) connectOwn(ctx context.Context) error {
	if !l.caps.Has(mysqlwire.CapPluginAuth) {
		return l.refuse(&clientError{errno: mysqlwire.ErrnoHandshake, msg: "Bad handshake: Tare shares connections (option pool transaction) and needs CLIENT_PLUGIN_AUTH of clients whose account is not in the file of option pool-accounts"})
	}
	l.switched = true
	if err := l.connect(ctx); err != nil {
		return err
	}
	return l.checkGreeting()
}

// authenticate authenticates the client by the password of its account.
func (l *login) authenticate(password string) error {
	plugin, response := string(l.response.AuthPlugin), l.response.AuthResponse
	if !l.caps.Has(mysqlwire.CapPluginAuth) || isNative(l.response.AuthPlugin) {
		plugin = mysqlconn.PluginNative
	}
	challenge := l.hello.AuthData
	known := plugin == mysqlconn.PluginNative || plugin == mysqlconn.PluginSHA2
	if !known || isEmptyResponse(response) && password != "" || l.again && l.caps.Has(mysqlwire.CapPluginAuth) {
		if !l.caps.Has(mysqlwire.CapPluginAuth) {
			return l.denied(response)
		}
		if !known {
			if plugin = mysqlconn.PluginSHA2; l.modes.maria {
				plugin = mysqlconn.PluginNative
			}
		}
		challenge = newChallenge()
		sw := mysqlwire.AuthSwitchRequest{Plugin: []byte(plugin), Data: append(slices.Clone(challenge), 0)}
		if err := l.client.WriteMessage(sw.AppendTo(nil)); err != nil {
			return l.clientDisconnected(err)
		}
		var err error
		if response, err = l.client.ReadMessage(maxLoginPacket); err != nil {
			return l.clientDisconnected(err)
		}
	}
	if !proves(plugin, password, challenge, response) {
		return l.denied(response)
	}
	if !l.caps.Has(mysqlwire.CapPluginAuth) {
		l.salt = append(l.salt[:0], challenge...)
	}
	return l.authenticated(plugin, password)
}

// authenticated has the session of a client that has proven a password share connections.
func (l *login) authenticated(plugin, password string) error {
	if plugin == mysqlconn.PluginSHA2 && password != "" {
		if err := l.client.WriteMessage([]byte{mysqlwire.MarkAuthMore, mysqlwire.SHA2FastOK}); err != nil {
			return l.clientDisconnected(err)
		}
	}
	l.share()
	return nil
}

func (l *login) share() {
	if l.caps.Has(mysqlwire.CapConnectWithDB) {
		l.lease.schemaLater = notPlain(l.response.Database)
	}
	l.pooled, l.carried.shares = true, true
	l.shown.shares.Store(true)
}

func isEmptyResponse(b []byte) bool { return len(b) == 0 || len(b) == 1 && b[0] == 0 }

// proves reports whether a response to a challenge proves knowledge of the password.
func proves(plugin, password string, challenge, response []byte) bool {
	if password == "" {
		return isEmptyResponse(response)
	}
	want := mysqlconn.ScrambleNative(password, challenge)
	if plugin == mysqlconn.PluginSHA2 {
		want = mysqlconn.ScrambleSHA2(password, challenge)
	}
	return subtle.ConstantTimeCompare(want, response) == 1
}

// maxWrongPasswords bounds those of COM_CHANGE_USER in a session, as MariaDB does, which keeps the session.
const maxWrongPasswords = 3

// denied refuses a client with a wrong password.
func (l *login) denied(response []byte) error {
	using := "YES"
	if isEmptyResponse(response) {
		using = "NO"
	}
	l.srv.metrics.poolDenied.Add(1)
	l.wrongPasswords++
	if l.learned != nil { // and maybe changed
		l.learned.Refuse()
		return l.refuse(&clientError{errno: mysqlwire.ErrnoAccessDenied, msg: fmt.Sprintf(
			"Access denied for user '%s'@'%s': connect again, so that the server checks the password", l.modes.user, l.remote.Addr())})
	}
	return fmt.Errorf("%w: %w", errDenied, l.refuse(&clientError{errno: mysqlwire.ErrnoAccessDenied, msg: fmt.Sprintf(
		"Access denied for user '%s'@'%s' (using password: %s)", l.modes.user, l.remote.Addr(), using)}))
}

// completeLogin gives a session that shares connections its first one, and responds to the client's login, which the server has not
// seen: the default schema is selected.
func (s *session) completeLogin() error {
	s.msg.seq = s.client.Seq - 1
	s.modes.unknown = false // of the connection
	refused, err := s.borrow()
	if name := s.lease.schemaLater; refused == nil && err == nil && name != "" {
		s.lease.schemaLater = ""
		if refused, err = s.selectSchema(name); refused == nil && err == nil {
			s.modes.useSchema([]byte(name))
		}
	}
	switch {
	case err != nil:
		return err
	case refused != nil:
		s.discardShared()
		_ = s.sendError(s.client.Seq, refused, true)
		return fmt.Errorf("%w: %w", errDenied, refused)
	}
	ok := mysqlwire.OK{Status: s.modes.status &^ mysqlwire.StatusSessionChanged}
	if err := s.client.WriteMessage(ok.AppendTo(nil, s.caps)); err != nil {
		return fmt.Errorf("%w: %w", errClientDisconnected, err)
	}
	s.client.DropWriteBuffer()
	return s.keep(s.keeps())
}

// changeShared serves COM_CHANGE_USER of a session that shares connections: it authenticates the user, as at a login. What the session
// has left is gone whether that succeeds or not.
func (s *session) changeShared() error {
	if !s.msg.whole {
		return s.violation(1, mysqlwire.ErrnoMalformedPacket, "Malformed communication packet: a login longer than the statement memory")
	}
	var u mysqlwire.ChangeUser
	if err := u.Decode(s.msg.body, s.caps); err != nil {
		return s.violation(1, mysqlwire.ErrnoMalformedPacket, "Malformed communication packet: "+err.Error())
	}
	if u.Charset > math.MaxUint8 { // a login at the backend has eight bits for it
		return s.violation(1, mysqlwire.ErrnoUnknownCommand, fmt.Sprintf("Tare does not change the user of a session that shares connections with collation %d: use one up to 255, then SET NAMES", u.Charset))
	}
	if s.wrongPasswords >= maxWrongPasswords {
		return s.violation(1, mysqlwire.ErrnoUnknownCommand, fmt.Sprintf("Unknown command: Tare changes no user after %d wrong passwords: connect again", maxWrongPasswords))
	}
	user, schema, later := userName(u.User), schemaName(u.Database), notPlain(u.Database)
	password, ok := s.srv.opts.Pool.listed(user)
	learned := s.srv.learned.Admitting(user, s.class().tls, time.Now())
	switch {
	case ok:
		learned = nil
	case learned != nil && learned.Refused() < maxWrongPasswords: // of all sessions: the server does not count them
		password = learned.Password()
	default:
		return s.violation(1, mysqlwire.ErrnoUnknownCommand, fmt.Sprintf(
			"Tare does not change the user of a session that shares connections to '%s', whose account is not in the file of option pool-accounts, and not learned (option pool-learn), or had wrong passwords: connect again", user))
	}
	if !s.srv.users.transfer(s.modes.user, user) {
		return s.violation(1, mysqlwire.ErrnoTooManyUserConnections, s.tooManyConnections(u.User).msg)
	}
	l := login{session: s, again: true, learned: learned, deadline: time.Now().Add(s.srv.opts.HandshakeTimeout)}
	l.response.AuthPlugin, l.response.AuthResponse = slices.Clone(u.AuthPlugin), slices.Clone(u.AuthResponse)
	l.hello.AuthData = s.salt
	previous := [...]string{s.modes.user, s.modes.schema}
	charset := s.charset
	if u.Charset != 0 {
		charset = uint8(u.Charset)
	}
	s.client.Seq = s.msg.seq + 1
	s.consume()
	err := s.forgetShared()
	if err == nil {
		err = s.setDeadlines(l.deadline, causeDrain|causeIdle|causeMove)
	}
	if err != nil {
		return err
	}
	s.modes.logIn(user, schema)
	if err = l.authenticate(password); err == nil {
		s.lease.schemaLater = later
		s.charset, charset = charset, s.charset
		s.changePool()
		if err = s.clearDeadlines(0); err == nil {
			err = s.completeLogin()
		}
		if err != nil {
			s.charset = charset
		}
	}
	if errors.Is(err, errDenied) && s.modes.maria { // which keeps the session, of its previous user
		s.srv.users.undoTransfer(user, previous[0])
		s.modes.logIn(previous[0], previous[1])
		s.changePool()
		err = s.clearDeadlines(0)
	}
	s.modes.rescope()
	s.showUser()
	return err
}

// bringOption repeats the session's COM_SET_OPTION, which holds for its connection as long as it keeps it.
func (s *session) bringOption() (refused *clientError, err error) {
	option := mysqlwire.SetOption{Option: mysqlwire.Option(s.carried.multi - 1)}
	s.lease.scratch = mysqlwire.ClosePacket(option.AppendTo(mysqlwire.OpenPacket(s.lease.scratch[:0])), 0, 0)
	if _, err := s.backend.Write(s.lease.scratch); err != nil {
		return nil, s.writeFailed(err)
	}
	s.internal = true
	defer func() { s.internal = false }()
	failed, err := s.skipInternal()
	if failed != nil {
		return &clientError{errno: failed.Number, msg: "Tare could not set an option of another connection: " + string(failed.Message)}, err
	}
	return nil, err
}

// changePool has the session share the connections of its user.
func (s *session) changePool() {
	l := &s.lease
	if l.pool.user == s.modes.user {
		return
	}
	placed := l.pool.lender.placed
	placed.left(l.pool.user, l.loop)
	l.pool = s.srv.lenders.of(l.loop, s.modes.user)
	placed.add(l.pool.user, l.loop)
}

// trackState returns the statement after which the server reports changes of the session that statements do not show.
func trackState() string { return "SET SESSION session_track_state_change = ON" }

// openShared opens a connection, which the session holds.
func (s *session) openShared() *clientError {
	p := s.lease.pool
	c := &sharedConn{to: s.to}
	key := s.class()
	var err error
	s.task.Block(func() {
		for err = errUsedUp; errors.Is(err, errUsedUp); {
			err = s.logInShared(c, key)
		}
	})
	if err == nil {
		if err = s.task.Attach(onLoop(c.conn)); err != nil {
			c.conn.Close()
		}
	}
	if err != nil {
		return s.poolError(err)
	}
	c.base = sharedBytes(c.conn.IsTLS())
	c.charge(s.srv)
	s.hold(p.Opened(s.class(), c, time.Now()))
	return nil
}

// noneFree returns the error of a command that has waited too long.
func (s *session) noneFree(wait time.Duration) *clientError {
	p := s.lease.pool
	most, loops := s.srv.opts.Pool.Max, len(s.srv.lenders)
	which := fmt.Sprintf("all %d of its pool were in use for %v", most, wait)
	if loops > 1 {
		which = fmt.Sprintf("all that this client may use were in use for %v: %d of %d, which %d event loops divide", wait, p.Max, most, loops)
	}
	return &clientError{errno: mysqlwire.ErrnoTooManyUserConnections, msg: fmt.Sprintf(
		"Tare has no connection for user '%s': %s (options pool-max and pool-wait)", p.user, which)}
}

// poolError returns the error for a client whose session got no connection.
func (s *session) poolError(err error) *clientError {
	e := &clientError{errno: mysqlwire.ErrnoNetRead, msg: "Tare cannot connect to its backend: see Tare's log", detail: err}
	if errors.Is(err, errForgotten) {
		e.errno, e.msg = mysqlwire.ErrnoAccessDenied, fmt.Sprintf("Access denied for user '%s': %v", s.modes.user, errForgotten)
	}
	if refused, ok := errors.AsType[*mysqlconn.ServerError](err); ok {
		e.errno, e.msg = mysqlwire.Errno(refused.Number), fmt.Sprintf("Tare cannot log in at its backend as '%s': %s", s.modes.user, refused.Message)
	} else if errors.Is(err, errLost) {
		e.msg = fmt.Sprintf("Tare cannot use its connections to the backend, which closed %d of them in a row: see Tare's log", maxLost)
	} else if errors.Is(err, errSilent) {
		e.msg = fmt.Sprintf("Tare cannot use its connections to the backend: %d of them had no response within %v (option connect-timeout)", maxLost, s.srv.opts.ConnectTimeout)
	} else if isTimeout(err) || errors.Is(err, context.DeadlineExceeded) {
		e.msg = fmt.Sprintf("Tare cannot connect to its backend: timeout after %v (option connect-timeout)", s.srv.opts.ConnectTimeout)
	}
	s.srv.loginLog.log(s.srv.opts.Diag, "shared connection failed", "backend", s.to.Addr, "user", s.modes.user, "error", err)
	return e
}

// logInShared opens the connection of c, outside of the loop.
func (s *session) logInShared(c *sharedConn, key class) error {
	ctx, cancel := context.WithTimeout(s.srv.ctx, s.srv.opts.ConnectTimeout+s.srv.opts.HandshakeTimeout)
	defer cancel()
	password, learned, err := s.poolAccount()
	if err != nil {
		return err
	}
	if c.account = learned; learned != nil {
		done, err := learned.Turn(ctx)
		if err != nil {
			return err
		}
		defer done()
		if learned.Forgotten() {
			return errForgotten
		}
	}
	nc, err := s.srv.dial(ctx, s.to.Addr)
	if err != nil {
		s.srv.report(s.to, err)
		return fmt.Errorf("connect to %s: %w", s.to.Addr, dialReason(err))
	}
	client, err := s.logInOn(ctx, nc, s.to, key, password, learned)
	if learned != nil {
		err = s.loggedInAs(learned, key.tls, err)
	}
	if err == nil {
		s.srv.report(s.to, nil)
		if h := s.to.greeting.Load(); h != nil && string(h.ServerVersion) != client.ServerVersion {
			s.to.greeting.Store(nil)
		}
		err = s.usableAs(learned, key.tls, s.prepareShared(ctx, client, c, key))
	}
	if errors.Is(err, errUsedUp) && client != nil {
		_ = client.Close()
		return err
	}
	if err == nil {
		err = client.SetDeadline(time.Time{})
	}
	if err != nil {
		nc.Close()
		return err
	}
	c.conn, c.id, c.maria = client.Conn, client.ConnectionID, isMaria(client.ServerVersion)
	if c.conn.NetConn() == c.conn.Socket() {
		c.conn.SwapBuffer(nil) // of the loop while it is lent
	}
	c.conn.DropWriteBuffer()
	return nil
}

// serverQuery returns the server and its settings that decide the state that logins and resets leave: another server may have the
// backend's address after a failover.
const serverQuery = "SELECT CONCAT_WS(' ', @@version, @@server_id, @@hostname, @@port, @@character_set_server, @@collation_server, @@init_connect)"

// maxLogins bounds the states of logins of a pool.
const maxLogins = 100

// prepareShared brings a new connection into the state in which it is lent, and learns what a reset of it restores.
func (s *session) prepareShared(ctx context.Context, client *mysqlconn.Client, c *sharedConn, key class) error {
	key.schema = false
	p := s.lease.pool
	login := loginKey{class: key}
	_, err := client.Query(ctx, serverQuery, func(row mysqlwire.TextRow) error {
		login.server = string(row[0])
		return nil
	})
	if err != nil {
		return err
	}
	p.learning.Lock()
	known := p.logins[login]
	first := known == nil
	if first {
		if known, err = learnLogin(ctx, client, s.srv.opts.Standby != nil); err == nil {
			if len(p.logins) >= maxLogins {
				clear(p.logins)
			}
			p.logins[login] = known
		}
	}
	p.learning.Unlock()
	switch {
	case err != nil:
		return err
	case first && !known.resets:
		return errUsedUp
	}
	c.login = known
	if _, err := client.Exec(ctx, trackState()); err != nil {
		return fmt.Errorf("the server has no session tracking, which shared connections need: %w", err)
	}
	mode := sqldigest.Mode(0).WithServer(sqldigest.ParseServer(client.ServerVersion))
	_, err = client.Query(ctx, modesQuery, func(row mysqlwire.TextRow) error {
		mode = mode.WithCharset(sqldigest.CharsetNamed(row[0])).WithSQLMode(row[1])
		return nil
	})
	c.mode, c.status = mode, client.Status
	return err
}

// learnLogin finds the variables in which a session after its login differs from one that was reset.
func learnLogin(ctx context.Context, client *mysqlconn.Client, compares bool) (l *loginState, err error) {
	l = &loginState{}
	if compares {
		if l.state, err = stateOf(ctx, client, isMaria(client.ServerVersion)); err != nil {
			return nil, err
		}
	}
	first, err := sessionVariables(ctx, client)
	if err != nil {
		return nil, err
	}
	if on := first["sql_auto_is_null"]; on == "ON" {
		return nil, errors.New("sql_auto_is_null is ON, with which any SELECT may read LAST_INSERT_ID(): connections cannot be shared")
	}
	reset := func() (map[string]string, error) {
		if err := client.Send(ctx, []byte{byte(mysqlwire.ComResetConnection)}); err != nil {
			return nil, err
		}
		return sessionVariables(ctx, client)
	}
	after, err := reset()
	if err != nil {
		return nil, err
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(first)) {
		if v := first[name]; v != after[name] && name != resultsCollation {
			list = append(list, "SESSION "+name+" = "+literal(name, v))
		}
	}
	if number := first[resultsCollation]; number != after[resultsCollation] || len(list) > 0 {
		// A login selects one collation for both; a number means a collation, where a name means the default one of a character set.
		list = append(list, "SESSION character_set_client = "+number, "SESSION character_set_results = "+number)
	}
	if len(list) > 0 {
		l.restore = "SET " + strings.Join(list, ", ")
		if _, err := client.Exec(ctx, l.restore); err != nil {
			if _, ok := errors.AsType[*mysqlconn.ServerError](err); !ok {
				return nil, err
			}
		}
	}
	restored, err := sessionVariables(ctx, client)
	if err != nil {
		return nil, err
	}
	l.resets = maps.Equal(first, restored) && first["init_connect"] == "" // which may do anything
	return l, nil
}

// literal returns the value of a variable in SHOW VARIABLES for a SET.
func literal(name, v string) string {
	if _, err := strconv.ParseInt(v, 10, 64); err == nil {
		return v
	}
	if v == "" && name == "character_set_results" {
		return "NULL"
	}
	return "'" + strings.ReplaceAll(v, "'", "''") + "'"
}

// sessionVariables returns the session's variables, without those that differ from one statement to the next.
func sessionVariables(ctx context.Context, client *mysqlconn.Client) (map[string]string, error) {
	all := make(map[string]string)
	_, err := client.Query(ctx, "SHOW SESSION VARIABLES", func(row mysqlwire.TextRow) error {
		switch name := string(row[0]); name {
		case "timestamp", "rand_seed1", "rand_seed2", "statement_id", "pseudo_thread_id", "error_count", "warning_count", "last_gtid", "gtid_executed",
			"gtid_binlog_pos", "gtid_current_pos", "gtid_purged", "gtid_owned", "gtid_binlog_state", "gtid_slave_pos", "innodb_buffer_pool_load_incremental":
		default:
			all[name] = string(row[1])
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	all[resultsCollation], err = readResultsCollation(client)
	return all, err
}

// resultsCollation is a name for the collation that the definitions of columns have. A login decides it; a SET of
// character_set_results has the default one of a character set in its place.
const resultsCollation = "(collation of results)"

func readResultsCollation(client *mysqlconn.Client) (string, error) {
	client.Seq = 0
	if err := client.WriteMessage(mysqlwire.AppendQuery(nil, []byte("SELECT 'a'"), client.Capabilities)); err != nil {
		return "", err
	}
	var r mysqlwire.Response
	r.Begin(mysqlwire.ComQuery, client.Capabilities, 1)
	var all []byte
	for !r.Done() {
		if err := client.Fill(); err != nil {
			return "", err
		}
		n, _, err := r.Scan(client.Buffered())
		if err != nil {
			return "", err
		}
		all = append(all, client.Buffered()[:n]...)
		client.Discard(n)
	}
	_, rest, err := cutPacket(all)
	if err != nil {
		return "", err
	}
	definition, _, err := cutPacket(rest)
	if err != nil {
		return "", err
	}
	strs := 6 // catalog, schema, table, column, and the names of these two
	if client.Capabilities.Has(mysqlwire.CapMariaExtendedTypeInfo) {
		strs++
	}
	for range strs {
		_, n := mysqlwire.LenencString(definition)
		definition = definition[n:]
	}
	if len(definition) < 3 {
		return "", mysqlwire.ErrMalformedPacket
	}
	return strconv.Itoa(int(binary.LittleEndian.Uint16(definition[1:]))), nil // after the length of what follows
}

// sharedBytes returns the heap bytes of a shared connection.
func sharedBytes(tls bool) int64 {
	n := heapsize.Object(unsafe.Sizeof(mysqlconn.Conn{}), true) + heapsize.Object(unsafe.Sizeof(sharedConn{}), true) + socketBytes
	if tls {
		n += tlsBytes + backendBuffer + heapsize.Object(unsafe.Sizeof(netloop.Collector{}), true)
	}
	return int64(n)
}
