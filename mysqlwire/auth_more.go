package mysqlwire

// AuthMoreData carries what an authentication method says next: for caching_sha2_password
// a status (3 = the fast path succeeded, 4 = send the password) or the server's public key.
// Data is a view of the payload.
//
// Specification: MySQL "Protocol::AuthMoreData", MariaDB "Connection#Plugin Data Packet".
type AuthMoreData struct {
	Data []byte
}

// The statuses that caching_sha2_password sends as AuthMoreData, and the byte by which its
// client asks for the public key.
const (
	SHA2FastOK       = 0x03
	SHA2FullAuth     = 0x04
	SHA2RequestKey   = 0x02
	SHA256RequestKey = 0x01 // the same question in sha256_password
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
