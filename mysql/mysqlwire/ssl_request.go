package mysqlwire

// sslRequestLen is the exact length in bytes of an SSLRequest's payload. Bytes after it belong to the TLS
// handshake, even if they are already in the buffer.
const sslRequestLen = 32

// An SSLRequest precedes the HandshakeResponse of a client that uses TLS: it is the response's first 32 bytes
// with CapSSL set. The TLS handshake follows immediately, then the whole response, encrypted.
//
// Specification: MySQL "Protocol::SSLRequest", MariaDB "Connection#SSLRequest Packet".
type SSLRequest struct {
	Capabilities Capability
	MaxPacket    uint32
	Charset      uint8
}

// IsSSLRequest reports whether a client's first payload is an SSLRequest rather than a
// HandshakeResponse, which is never as short.
func IsSSLRequest(payload []byte) bool {
	return len(payload) == sslRequestLen && Capability(payload[1])<<8&CapSSL != 0 &&
		Capability(payload[1])<<8&CapProtocol41 != 0
}

// Decode reads an SSLRequest. It does not allocate.
func (r *SSLRequest) Decode(payload []byte) error {
	const what = "ssl request"
	c := cursor{rest: payload}
	*r = SSLRequest{}
	var err error
	if r.Capabilities, r.MaxPacket, r.Charset, err = decodeClientHello(&c, what); err != nil {
		return err
	}
	if c.more() {
		return malformed(what, "longer than 32 bytes")
	}
	if !r.Capabilities.Has(CapSSL) {
		return malformed(what, "the SSL capability is not set")
	}
	return nil
}

// AppendTo appends the payload of r. It does not allocate when dst has room.
func (r SSLRequest) AppendTo(dst []byte) []byte {
	return appendClientHello(dst, r.Capabilities, r.MaxPacket, r.Charset)
}
