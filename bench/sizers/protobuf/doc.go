// Package protobuf holds protobuf messages. Its directives are the recipe of the README of sizegen.
package protobuf
