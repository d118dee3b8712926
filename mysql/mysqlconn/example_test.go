package mysqlconn_test

import (
	"fmt"

	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

func ExampleScrambleNative() {
	fmt.Printf("%x\n", mysqlconn.ScrambleNative("secret", []byte("abcdefghijklmnopqrst")))
	// Output: 8817c50fa779daef010ee7577825b0847df9842e
}

// A gateway sends its public key to a client and decrypts the password in the client's response.
func ExampleKeyPair() {
	pair, err := mysqlconn.NewKeyPair()
	if err != nil {
		fmt.Println(err)
		return
	}
	challenge := []byte("abcdefghijklmnopqrst")

	// The client's side.
	key, err := mysqlconn.ParsePublicKey(pair.PublicPEM())
	if err != nil {
		fmt.Println(err)
		return
	}
	secret, err := mysqlconn.EncryptPassword("secret", challenge, key)
	if err != nil {
		fmt.Println(err)
		return
	}

	// The gateway's side.
	password, err := pair.DecryptPassword(secret, challenge)
	fmt.Println(len(secret), password, err)
	// Output: 256 secret <nil>
}

func ExampleServerError() {
	err := &mysqlconn.ServerError{Number: mysqlwire.ErrnoDeadlock, State: "40001", Message: "Deadlock found"}
	fmt.Println(err)
	fmt.Println("retry:", err.SafeToRetry())
	// Output:
	// server error 1213 (40001): Deadlock found
	// retry: true
}

func ExampleParseTLSMode() {
	m, err := mysqlconn.ParseTLSMode("verify-ca")
	fmt.Println(m, err)
	_, err = mysqlconn.ParseTLSMode("on")
	fmt.Println(err)
	// Output:
	// verify-ca <nil>
	// unknown tls mode "on": want disabled, preferred, required, verify-ca or verify-identity
}
