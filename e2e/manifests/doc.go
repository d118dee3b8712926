// Package manifests checks the manifests for Kubernetes, of deploy, by the types of its API. In the main
// module these types would be a requirement of every user of a package.
package manifests
