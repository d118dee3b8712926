package mysqlwire

// An AuthSwitchRequest requests another authentication method from the client and has the
// challenge of that method. It is sent during login and COM_CHANGE_USER; the client responds
// with the raw bytes of the method. Slices are views of the payload.
//
// Specification: MySQL "Protocol::AuthSwitchRequest" and "Protocol::OldAuthSwitchRequest",
// MariaDB "Connection#Authentication Switch Request".
type AuthSwitchRequest struct {
	// Old reports that the packet is the single byte FE, which requests the method from
	// before MySQL 4.1. Plugin and Data are then empty.
	Old bool

	Plugin []byte

	// Data is the challenge in wire form: methods with a 20-byte scramble append a NUL byte, others
	// (client_ed25519) do not.
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

// AuthMoreData has the next message of an authentication method: for caching_sha2_password
// a status (3 = the fast path succeeded, 4 = send the password) or the server's public key.
// Data is a view of the payload.
//
// Specification: MySQL "Protocol::AuthMoreData", MariaDB "Connection#Plugin Data Packet".
type AuthMoreData struct {
	Data []byte
}

// Statuses that caching_sha2_password sends as AuthMoreData, and the byte by which its client requests the
// public key.
const (
	SHA2FastOK       = 0x03
	SHA2FullAuth     = 0x04
	SHA2RequestKey   = 0x02
	SHA256RequestKey = 0x01 // the same request in sha256_password
)

// Decode reads a packet of more authentication data. It does not allocate.
func (a *AuthMoreData) Decode(payload []byte) error {
	*a = AuthMoreData{}
	c, err := open(payload, MarkAuthMore, "auth more data")
	if err != nil {
		return err
	}
	a.Data = c.all()
	return nil
}

// AppendTo appends the payload of a. It does not allocate when dst has room.
func (a AuthMoreData) AppendTo(dst []byte) []byte {
	return append(append(dst, MarkAuthMore), a.Data...)
}

// An AuthNextFactor requests the next factor of multi-factor authentication after one was
// accepted. Slices are views of the payload.
//
// Specification: MySQL "Protocol::AuthNextFactor".
type AuthNextFactor struct {
	Plugin []byte
	Data   []byte // as on the wire; see AuthSwitchRequest.Data
}

// Decode reads a request for the next factor. It does not allocate.
func (a *AuthNextFactor) Decode(payload []byte) error {
	const what = "auth next factor"
	*a = AuthNextFactor{}
	c, err := open(payload, MarkNextFactor, what)
	if err != nil {
		return err
	}
	a.Plugin = c.nul()
	a.Data = c.all()
	return c.done(what)
}

// AppendTo appends the payload of a. It does not allocate when dst has room.
func (a AuthNextFactor) AppendTo(dst []byte) []byte {
	return append(appendNul(append(dst, MarkNextFactor), a.Plugin), a.Data...)
}
