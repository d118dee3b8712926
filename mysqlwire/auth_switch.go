package mysqlwire

// An AuthSwitchRequest asks the client to log in by another method, with a challenge of
// its own. It comes during login and COM_CHANGE_USER; the client answers with the raw
// bytes of the method. Slices are views of the payload.
//
// Specification: MySQL "Protocol::AuthSwitchRequest" and "Protocol::OldAuthSwitchRequest",
// MariaDB "Connection#Authentication Switch Request".
type AuthSwitchRequest struct {
	// Old says that the packet is the lone byte FE by which servers ask for the method
	// from before MySQL 4.1. Plugin and Data are empty then.
	Old bool

	Plugin []byte

	// Data is the challenge as it is on the wire: methods with a 20-byte scramble have a
	// NUL byte after it, others (client_ed25519) have none.
	Data []byte
}

// Decode reads an authentication switch. It does not allocate.
func (a *AuthSwitchRequest) Decode(payload []byte) error {
	const what = "auth switch request"
	*a = AuthSwitchRequest{}
	c, err := open(payload, MarkEOF, what)
	if err != nil {
		return err
	}
	if !c.more() {
		a.Old = true
		return nil
	}
	a.Plugin = c.nulOrRest()
	a.Data = c.all()
	return c.done(what)
}

// AppendTo appends the payload of a. It does not allocate when dst has room.
func (a AuthSwitchRequest) AppendTo(dst []byte) []byte {
	dst = append(dst, MarkEOF)
	if a.Old {
		return dst
	}
	return append(appendNul(dst, a.Plugin), a.Data...)
}
