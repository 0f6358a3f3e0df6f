/*
 * What clients send and what must come of it. Each is fed whole, byte by byte and cut in two at
 * every place. Of the bad ones the error's code is expected; of the good ones the whole trace (see
 * tests/http_trace.h).
 */
#ifndef BERTH_TESTS_HTTP_CASES_H
#define BERTH_TESTS_HTTP_CASES_H

#include "base/err.h"
#include "base/str.h"

#define H       "Host: h\r\n"
#define GET     "GET / HTTP/1.1\r\n"
#define POST    "POST / HTTP/1.1\r\n" H
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"
#define BYTES(text)                                                                                \
	{                                                                                          \
		text, sizeof(text) - 1                                                             \
	}

struct bad_case {
	const char *name;
	struct str input;
	enum err_code code;
};

struct good_case {
	const char *name;
	struct str input;
	const char *trace;
};

/* clang-format off */
static const struct bad_case bad_cases[] = {
	/* Lines and bytes */
	{"LF alone ends the request line", BYTES("GET / HTTP/1.1\nHost: h\r\n\r\n"), ERR_INVALID_REQUEST},
	{"LF alone ends a header line", BYTES(GET "Host: h\n\r\n"), ERR_INVALID_REQUEST},
	{"LF alone ends the head", BYTES(GET H "\n"), ERR_INVALID_REQUEST},
	{"LF alone everywhere", BYTES("GET / HTTP/1.1\nHost: h\n\n"), ERR_INVALID_REQUEST},
	{"CR alone in the request line", BYTES("GET /\r HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"CR alone in a value", BYTES(GET "Host: h\rX: y\r\n\r\n"), ERR_INVALID_REQUEST},
	{"CR CR LF", BYTES(GET "Host: h\r\r\n\r\n"), ERR_INVALID_REQUEST},
	{"CR alone before the head's end", BYTES(GET H "\r\rX"), ERR_INVALID_REQUEST},
	{"CR alone in front", BYTES("\rGET / HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"LF alone in front", BYTES("\nGET / HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"two empty lines in front", BYTES("\r\n\r\nGET / HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"a space in front", BYTES(" GET / HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"a tab in front", BYTES("\tGET / HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"TLS client hello", BYTES("\x16\x03\x01\x02\x00\x01\x00"), ERR_INVALID_REQUEST},
	{"NUL in front", BYTES("\0GET / HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"NUL in the target", BYTES("GET /\0 HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"NUL in a name", BYTES(GET H "X\0Y: z\r\n\r\n"), ERR_INVALID_REQUEST},
	{"NUL in a value", BYTES(GET H "X: a\0b\r\n\r\n"), ERR_INVALID_REQUEST},
	{"escape character in a value", BYTES(GET H "X: \x1b[2J\r\n\r\n"), ERR_INVALID_REQUEST},
	{"vertical tab in a value", BYTES(GET H "X: a\x0b" "b\r\n\r\n"), ERR_INVALID_REQUEST},
	{"form feed in the request line", BYTES("GET /\x0c HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"DEL in a value", BYTES(GET H "X: \x7f\r\n\r\n"), ERR_INVALID_REQUEST},
	{"byte-order mark", BYTES("\xef\xbb\xbfGET / HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},

	/* Request line */
	{"two spaces after the method", BYTES("GET  / HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"two spaces before the version", BYTES("GET /  HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"space after the version", BYTES("GET / HTTP/1.1 \r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"tab after the method", BYTES("GET\t/ HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"tab before the version", BYTES("GET /\tHTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"space in the target", BYTES("GET /a b HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"HTTP/0.9 request", BYTES("GET /\r\n\r\n"), ERR_INVALID_REQUEST},
	{"method alone", BYTES("GET\r\n\r\n"), ERR_INVALID_REQUEST},
	{"no target", BYTES("GET HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"empty target", BYTES("GET  HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"method not a token", BYTES("G@T / HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"method with a colon", BYTES("GET: / HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"method with a byte above 0x7f", BYTES("G\xc3\x8bT / HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"CONNECT to an authority", BYTES("CONNECT h:443 HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"CONNECT to a path", BYTES("CONNECT / HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"authority as target", BYTES("GET h:80 HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"relative target", BYTES("GET a/b HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"asterisk for GET", BYTES("GET * HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"asterisk and more", BYTES("OPTIONS *a HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"fragment", BYTES("GET /a#b HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"fragment in the query", BYTES("GET /a?b#c HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"byte above 0x7f in the target", BYTES("GET /\xc3\xa9 HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"https URL", BYTES("GET https://h/ HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"file URL", BYTES("GET file:///etc/passwd HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"URL without a host", BYTES("GET http:/// HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"URL scheme alone", BYTES("GET http:// HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"user in the URL", BYTES("GET http://u@h/ HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"user and password in the URL", BYTES("GET http://u:p@h/ HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"URL with a bad port", BYTES("GET http://h:x/ HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},

	/* Version */
	{"HTTP/2 preface", BYTES("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), ERR_HTTP_VERSION},
	{"HTTP/2.0", BYTES("GET / HTTP/2.0\r\n" H "\r\n"), ERR_HTTP_VERSION},
	{"HTTP/1.2", BYTES("GET / HTTP/1.2\r\n" H "\r\n"), ERR_HTTP_VERSION},
	{"HTTP/3.7", BYTES("GET / HTTP/3.7\r\n" H "\r\n"), ERR_HTTP_VERSION},
	{"HTTP/0.9", BYTES("GET / HTTP/0.9\r\n" H "\r\n"), ERR_HTTP_VERSION},
	{"version without minor", BYTES("GET / HTTP/1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"version with two digits", BYTES("GET / HTTP/1.10\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"version with a leading zero", BYTES("GET / HTTP/01.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"version in lower case", BYTES("GET / http/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"version of another protocol", BYTES("GET / RTSP/1.0\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"comma in the version", BYTES("GET / HTTP/1,1\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"SOURCE with ICE/1.0", BYTES("SOURCE /a ICE/1.0\r\n" H "\r\n"), ERR_INVALID_REQUEST},

	/* Header lines */
	{"folded line", BYTES(GET H "X: a\r\n b\r\n\r\n"), ERR_INVALID_REQUEST},
	{"line folded with a tab", BYTES(GET H "X: a\r\n\tb\r\n\r\n"), ERR_INVALID_REQUEST},
	{"fold after the request line", BYTES(GET " X: a\r\n" H "\r\n"), ERR_INVALID_REQUEST},
	{"folded Content-Length", BYTES(POST "Content-Length:\r\n 5\r\n\r\nhello"), ERR_INVALID_REQUEST},
	{"space before the colon", BYTES(GET "Host : h\r\n\r\n"), ERR_INVALID_REQUEST},
	{"tab before the colon", BYTES(GET "Host\t: h\r\n\r\n"), ERR_INVALID_REQUEST},
	{"space before TE's colon", BYTES(POST "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"), ERR_INVALID_REQUEST},
	{"space in a name", BYTES(GET H "X Y: z\r\n\r\n"), ERR_INVALID_REQUEST},
	{"empty name", BYTES(GET H ": z\r\n\r\n"), ERR_INVALID_REQUEST},
	{"no colon", BYTES(GET H "X\r\n\r\n"), ERR_INVALID_REQUEST},
	{"name not a token", BYTES(GET H "X(Y): z\r\n\r\n"), ERR_INVALID_REQUEST},
	{"name with a byte above 0x7f", BYTES(GET H "X\xc3\xa9: z\r\n\r\n"), ERR_INVALID_REQUEST},
	{"quoted name", BYTES(GET H "\"X\": z\r\n\r\n"), ERR_INVALID_REQUEST},

	/* Host */
	{"no Host", BYTES(GET "\r\n"), ERR_INVALID_REQUEST},
	{"no Host, but a URL", BYTES("GET http://h/ HTTP/1.1\r\n\r\n"), ERR_INVALID_REQUEST},
	{"two Hosts", BYTES(GET H "Host: i\r\n\r\n"), ERR_INVALID_REQUEST},
	{"the same Host twice", BYTES(GET H H "\r\n"), ERR_INVALID_REQUEST},
	{"two Hosts in HTTP/1.0", BYTES("GET / HTTP/1.0\r\n" H H "\r\n"), ERR_INVALID_REQUEST},
	{"list of Hosts", BYTES(GET "Host: a, b\r\n\r\n"), ERR_INVALID_REQUEST},
	{"empty Host", BYTES(GET "Host:\r\n\r\n"), ERR_INVALID_REQUEST},
	{"Host with a space", BYTES(GET "Host: a b\r\n\r\n"), ERR_INVALID_REQUEST},
	{"Host with a path", BYTES(GET "Host: a/b\r\n\r\n"), ERR_INVALID_REQUEST},
	{"Host with a user", BYTES(GET "Host: u@h\r\n\r\n"), ERR_INVALID_REQUEST},
	{"Host with a fragment", BYTES(GET "Host: h#\r\n\r\n"), ERR_INVALID_REQUEST},
	{"Host with a byte above 0x7f", BYTES(GET "Host: h\xc3\xa9\r\n\r\n"), ERR_INVALID_REQUEST},
	{"Host with port 65536", BYTES(GET "Host: h:65536\r\n\r\n"), ERR_INVALID_REQUEST},
	{"Host with a long port", BYTES(GET "Host: h:000080\r\n\r\n"), ERR_INVALID_REQUEST},
	{"Host with two ports", BYTES(GET "Host: h:80:80\r\n\r\n"), ERR_INVALID_REQUEST},
	{"Host with an open bracket", BYTES(GET "Host: [::1\r\n\r\n"), ERR_INVALID_REQUEST},
	{"Host with empty brackets", BYTES(GET "Host: []\r\n\r\n"), ERR_INVALID_REQUEST},
	{"Host with something behind brackets", BYTES(GET "Host: [::1]a\r\n\r\n"), ERR_INVALID_REQUEST},

	/* Content-Length */
	{"two lengths", BYTES(POST "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"), ERR_INVALID_REQUEST},
	{"the same length twice", BYTES(POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"), ERR_INVALID_REQUEST},
	{"two lengths in other cases", BYTES(POST "content-length: 5\r\nCONTENT-LENGTH: 0\r\n\r\nhello"), ERR_INVALID_REQUEST},
	{"list of lengths", BYTES(POST "Content-Length: 5, 5\r\n\r\nhello"), ERR_INVALID_REQUEST},
	{"positive length", BYTES(POST "Content-Length: +5\r\n\r\nhello"), ERR_INVALID_REQUEST},
	{"negative length", BYTES(POST "Content-Length: -5\r\n\r\nhello"), ERR_INVALID_REQUEST},
	{"hexadecimal length", BYTES(POST "Content-Length: 0x5\r\n\r\nhello"), ERR_INVALID_REQUEST},
	{"fractional length", BYTES(POST "Content-Length: 5.0\r\n\r\nhello"), ERR_INVALID_REQUEST},
	{"length with an exponent", BYTES(POST "Content-Length: 5e0\r\n\r\nhello"), ERR_INVALID_REQUEST},
	{"length with a space inside", BYTES(POST "Content-Length: 5 5\r\n\r\nhello"), ERR_INVALID_REQUEST},
	{"quoted length", BYTES(POST "Content-Length: \"5\"\r\n\r\nhello"), ERR_INVALID_REQUEST},
	{"empty length", BYTES(POST "Content-Length:\r\n\r\n"), ERR_INVALID_REQUEST},
	{"blank length", BYTES(POST "Content-Length: \t \r\n\r\n"), ERR_INVALID_REQUEST},
	{"length of 2^63", BYTES(POST "Content-Length: 9223372036854775808\r\n\r\n"), ERR_INVALID_REQUEST},
	{"length of 2^64", BYTES(POST "Content-Length: 18446744073709551616\r\n\r\n"), ERR_INVALID_REQUEST},
	{"length of 2^64 + 5", BYTES(POST "Content-Length: 18446744073709551621\r\n\r\nhello"), ERR_INVALID_REQUEST},

	/* Transfer-Encoding */
	{"length, then coding", BYTES(POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), ERR_INVALID_REQUEST},
	{"coding, then length", BYTES(POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"), ERR_INVALID_REQUEST},
	{"coding and length 0", BYTES(POST "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n"), ERR_INVALID_REQUEST},
	{"unknown coding and length", BYTES(POST "Content-Length: 5\r\nTransfer-Encoding: gzip\r\n\r\nhello"), ERR_INVALID_REQUEST},
	{"two codings", BYTES(POST "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), ERR_INVALID_REQUEST},
	{"chunked twice", BYTES(POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), ERR_INVALID_REQUEST},
	{"chunked, then identity", BYTES(POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n"), ERR_INVALID_REQUEST},
	{"chunked not last", BYTES(POST "Transfer-Encoding: chunked, gzip\r\n\r\n"), ERR_INVALID_REQUEST},
	{"chunked in HTTP/1.0", BYTES("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), ERR_INVALID_REQUEST},
	{"empty coding", BYTES(POST "Transfer-Encoding:\r\n\r\n"), ERR_INVALID_REQUEST},
	{"vertical tab before chunked", BYTES(POST "Transfer-Encoding: \x0b" "chunked\r\n\r\n"), ERR_INVALID_REQUEST},
	{"gzip", BYTES(POST "Transfer-Encoding: gzip\r\n\r\n"), ERR_UNSUPPORTED},
	{"gzip, chunked", BYTES(POST "Transfer-Encoding: gzip, chunked\r\n\r\n"), ERR_UNSUPPORTED},
	{"identity", BYTES(POST "Transfer-Encoding: identity\r\n\r\n"), ERR_UNSUPPORTED},
	{"xchunked", BYTES(POST "Transfer-Encoding: xchunked\r\n\r\n"), ERR_UNSUPPORTED},
	{"quoted chunked", BYTES(POST "Transfer-Encoding: \"chunked\"\r\n\r\n"), ERR_UNSUPPORTED},

	/* Expect */
	{"other expectation", BYTES(POST "Expect: 200-ok\r\nContent-Length: 5\r\n\r\n"), ERR_EXPECTATION_FAILED},
	{"empty expectation", BYTES(POST "Expect:\r\nContent-Length: 5\r\n\r\n"), ERR_EXPECTATION_FAILED},
	{"expectation and another", BYTES(POST "Expect: 100-continue\r\nExpect: x\r\nContent-Length: 5\r\n\r\n"), ERR_EXPECTATION_FAILED},

	/* Chunks */
	{"no size", BYTES(CHUNKED "\r\n"), ERR_INVALID_REQUEST},
	{"extension without a size", BYTES(CHUNKED ";a=b\r\n"), ERR_INVALID_REQUEST},
	{"size not hexadecimal", BYTES(CHUNKED "g\r\n"), ERR_INVALID_REQUEST},
	{"negative size", BYTES(CHUNKED "-5\r\nhello\r\n"), ERR_INVALID_REQUEST},
	{"positive size", BYTES(CHUNKED "+5\r\nhello\r\n"), ERR_INVALID_REQUEST},
	{"size with 0x", BYTES(CHUNKED "0x5\r\nhello\r\n"), ERR_INVALID_REQUEST},
	{"space before the size", BYTES(CHUNKED " 5\r\nhello\r\n"), ERR_INVALID_REQUEST},
	{"space after the size", BYTES(CHUNKED "5 \r\nhello\r\n"), ERR_INVALID_REQUEST},
	{"tab after the size", BYTES(CHUNKED "5\t\r\nhello\r\n"), ERR_INVALID_REQUEST},
	{"space before an extension", BYTES(CHUNKED "5 ;a\r\nhello\r\n"), ERR_INVALID_REQUEST},
	{"space in an extension", BYTES(CHUNKED "5;a= b\r\nhello\r\n"), ERR_INVALID_REQUEST},
	{"LF alone after the size", BYTES(CHUNKED "5\nhello\r\n"), ERR_INVALID_REQUEST},
	{"CR alone after the size", BYTES(CHUNKED "5\rhello\r\n"), ERR_INVALID_REQUEST},
	{"LF alone after an extension", BYTES(CHUNKED "5;a\nhello\r\n"), ERR_INVALID_REQUEST},
	{"LF alone in a quoted extension", BYTES(CHUNKED "5;a=\"\n\"\r\nhello\r\n"), ERR_INVALID_REQUEST},
	{"CR alone in an extension", BYTES(CHUNKED "5;a\rb\r\nhello\r\n"), ERR_INVALID_REQUEST},
	{"NUL in an extension", BYTES(CHUNKED "5;a\0\r\nhello\r\n"), ERR_INVALID_REQUEST},
	{"LF alone after the data", BYTES(CHUNKED "5\r\nhello\n0\r\n\r\n"), ERR_INVALID_REQUEST},
	{"CR alone after the data", BYTES(CHUNKED "5\r\nhello\r0\r\n\r\n"), ERR_INVALID_REQUEST},
	{"nothing after the data", BYTES(CHUNKED "5\r\nhello0\r\n\r\n"), ERR_INVALID_REQUEST},
	{"longer than its size", BYTES(CHUNKED "4\r\nhello\r\n0\r\n\r\n"), ERR_INVALID_REQUEST},
	{"shorter than its size", BYTES(CHUNKED "6\r\nhello\r\n0\r\n\r\n"), ERR_INVALID_REQUEST},
	{"size of 2^63", BYTES(CHUNKED "8000000000000000\r\n"), ERR_INVALID_REQUEST},
	{"size of 2^64 - 1", BYTES(CHUNKED "ffffffffffffffff\r\n"), ERR_INVALID_REQUEST},
	{"size of 17 digits", BYTES(CHUNKED "00000000000000005\r\nhello\r\n"), ERR_INVALID_REQUEST},
	{"size of 2^64 + 5", BYTES(CHUNKED "10000000000000005\r\nhello\r\n"), ERR_INVALID_REQUEST},
	{"digits behind an extension", BYTES(CHUNKED "5;a=b;5\r\nhello\r\n0\r\n\r\n"), ERR_INVALID_REQUEST},
	{"digits behind the last chunk's extension", BYTES(CHUNKED "0;a=b;5\r\nA: b\r\n\r\n"), ERR_INVALID_REQUEST},
	{"last chunk of 17 zeros", BYTES(CHUNKED "00000000000000000\r\n\r\n"), ERR_INVALID_REQUEST},

	/* Trailers */
	{"LF alone ends the message", BYTES(CHUNKED "0\r\n\n"), ERR_INVALID_REQUEST},
	{"CR alone ends the message", BYTES(CHUNKED "0\r\n\rX"), ERR_INVALID_REQUEST},
	{"LF alone after a trailer", BYTES(CHUNKED "0\r\nA: b\n\r\n"), ERR_INVALID_REQUEST},
	{"CR alone in a trailer", BYTES(CHUNKED "0\r\nA: b\rc\r\n\r\n"), ERR_INVALID_REQUEST},
	{"folded trailer", BYTES(CHUNKED "0\r\nA: b\r\n c\r\n\r\n"), ERR_INVALID_REQUEST},
	{"trailer begins with a space", BYTES(CHUNKED "0\r\n A: b\r\n\r\n"), ERR_INVALID_REQUEST},
	{"trailer without a colon", BYTES(CHUNKED "0\r\nA\r\n\r\n"), ERR_INVALID_REQUEST},
	{"trailer without a name", BYTES(CHUNKED "0\r\n: b\r\n\r\n"), ERR_INVALID_REQUEST},
	{"space before a trailer's colon", BYTES(CHUNKED "0\r\nA : b\r\n\r\n"), ERR_INVALID_REQUEST},
	{"NUL in a trailer", BYTES(CHUNKED "0\r\nA: \0\r\n\r\n"), ERR_INVALID_REQUEST},
	{"both framings as trailers", BYTES(CHUNKED "0\r\nContent-Length: 5\r\nTransfer-Encoding: gzip\r\n\r\n"), ERR_INVALID_REQUEST},
	{"a request as a trailer", BYTES(CHUNKED "0\r\nGET / HTTP/1.1\r\n" H "\r\n"), ERR_INVALID_REQUEST},

	/* After a good message */
	{"data behind a sized body", BYTES(POST "Content-Length: 5\r\n\r\nhello\x01"), ERR_INVALID_REQUEST},
	{"CL.TE", BYTES(POST "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG"), ERR_INVALID_REQUEST},
	{"body without a length", BYTES(POST "\r\n{\"a\": 1}"), ERR_INVALID_REQUEST},
};

#define T_GET "GET / host=h 1.1 keep none; "

static const struct good_case good_cases[] = {
	{"the least", BYTES(GET H "\r\n"), T_GET},
	{"HTTP/1.0 without Host", BYTES("GET / HTTP/1.0\r\n\r\n"), "GET / host= 1.0 close none; "},
	{"HTTP/1.0 keep-alive", BYTES("GET / HTTP/1.0\r\n" H "Connection: keep-alive\r\n\r\n"), "GET / host=h 1.0 close none; "},
	{"HTTP/1.0 with a body", BYTES("POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\nhi"), "POST / host= 1.0 close sized(hi); "},
	{"empty line in front", BYTES("\r\nGET / HTTP/1.1\r\n" H "\r\n"), T_GET},
	{"empty line between two", BYTES(GET H "\r\n\r\nGET / HTTP/1.1\r\n" H "\r\n"), T_GET T_GET},
	{"path and query", BYTES("GET /a/b%20c?d=e&f HTTP/1.1\r\n" H "\r\n"), "GET /a/b%20c?d=e&f host=h 1.1 keep none; "},
	{"empty query", BYTES("GET /? HTTP/1.1\r\n" H "\r\n"), "GET /? host=h 1.1 keep none; "},
	{"question mark in the query", BYTES("GET /a??b?c HTTP/1.1\r\n" H "\r\n"), "GET /a??b?c host=h 1.1 keep none; "},
	{"two slashes", BYTES("GET //a//b HTTP/1.1\r\n" H "\r\n"), "GET //a//b host=h 1.1 keep none; "},
	{"URL", BYTES("GET http://i:80/a?b HTTP/1.1\r\n" H "\r\n"), "GET /a?b host=i:80 1.1 keep none; "},
	{"URL without a path", BYTES("GET HTTP://i HTTP/1.1\r\n" H "\r\n"), "GET / host=i 1.1 keep none; "},
	{"URL with a query alone", BYTES("GET http://i?b HTTP/1.1\r\n" H "\r\n"), "GET /?b host=i 1.1 keep none; "},
	{"URL in a query", BYTES("GET /?u=http://u@h/ HTTP/1.1\r\n" H "\r\n"), "GET /?u=http://u@h/ host=h 1.1 keep none; "},
	{"OPTIONS *", BYTES("OPTIONS * HTTP/1.1\r\n" H "\r\n"), "OPTIONS * host=h 1.1 keep none; "},
	{"method that llhttp knows and we do not", BYTES("PROPFIND / HTTP/1.1\r\n" H "\r\n"), "PROPFIND / host=h 1.1 keep none; "},
	{"method that nobody knows", BYTES("BREW /pot HTTP/1.1\r\n" H "Content-Length: 1\r\n\r\nx"), "BREW /pot host=h 1.1 keep sized(x); "},
	{"method in lower case", BYTES("get / HTTP/1.1\r\n" H "\r\n"), "get / host=h 1.1 keep none; "},
	{"method of every kind of character", BYTES("!#$%&'*+-.^_`|~9 / HTTP/1.1\r\n" H "\r\n"), "!#$%&'*+-.^_`|~9 / host=h 1.1 keep none; "},
	{"PRI as a method", BYTES("PRI / HTTP/1.1\r\n" H "\r\n"), "PRI / host=h 1.1 keep none; "},
	{"host and port", BYTES(GET "Host: a-b_c.example:65535\r\n\r\n"), "GET / host=a-b_c.example:65535 1.1 keep none; "},
	{"IPv6 host", BYTES(GET "Host: [::ffff:127.0.0.1]:80\r\n\r\n"), "GET / host=[::ffff:127.0.0.1]:80 1.1 keep none; "},
	{"name in capitals, blanks around the value", BYTES(GET "HOST: \t h \t \r\n\r\n"), T_GET},
	{"no blank before the value", BYTES(GET "Host:h\r\n\r\n"), T_GET},
	{"values with tabs and bytes above 0x7f", BYTES(GET H "X: a\tb \xc3\xa9\xff\r\nEmpty:\r\n\r\n"), T_GET},
	{"close", BYTES(GET H "Connection: close\r\n\r\n"), "GET / host=h 1.1 close none; "},
	{"close in a list", BYTES(GET H "Connection: x ,\tCLOSE,,\r\n\r\n"), "GET / host=h 1.1 close none; "},
	{"close in the second of two", BYTES(GET H "Connection: x\r\nConnection: close\r\n\r\n"), "GET / host=h 1.1 close none; "},
	{"closed is not close", BYTES(GET H "Connection: closed\r\n\r\n"), T_GET},
	{"a request behind one with close", BYTES(GET H "Connection: close\r\n\r\n" GET H "\r\n"), "GET / host=h 1.1 close none; " T_GET},
	{"upgrade", BYTES(GET H "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n"), "GET / host=h 1.1 keep upgrade none; "},
	{"upgrade without a protocol", BYTES(GET H "Connection: upgrade\r\n\r\n"), T_GET},
	{"protocol without upgrade", BYTES(GET H "Upgrade: websocket\r\n\r\n"), T_GET},
	{"upgrade in HTTP/1.0", BYTES("GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"), "GET / host= 1.0 close none; "},
	{"upgrade with a sized body", BYTES(POST "Connection: upgrade\r\nUpgrade: x\r\nContent-Length: 2\r\n\r\nhi" GET H "\r\n"), "POST / host=h 1.1 keep upgrade sized(hi); " T_GET},
	{"upgrade with a chunked body", BYTES(POST "Connection: upgrade\r\nUpgrade: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n" GET H "\r\n"), "POST / host=h 1.1 keep upgrade chunked(hi); " T_GET},
	{"close with a chunked body", BYTES(POST "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"), "POST / host=h 1.1 close chunked(hi); "},
	{"unknown method with a chunked body", BYTES("BREW / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"), "BREW / host=h 1.1 keep chunked(hi); "},
	{"sized body", BYTES(POST "Content-Length: 5\r\n\r\nhello"), "POST / host=h 1.1 keep sized(hello); "},
	{"sized body of any bytes", BYTES(POST "Content-Length: 6\r\n\r\n\r\n\x01\x7f\n\r"), "POST / host=h 1.1 keep sized(\r\n\x01\x7f\n\r); "},
	{"length with leading zeros", BYTES(POST "Content-Length: 000000000000000000000000000005\r\n\r\nhello"), "POST / host=h 1.1 keep sized(hello); "},
	{"length 0", BYTES(POST "Content-Length: 0\r\n\r\n" GET H "\r\n"), "POST / host=h 1.1 keep none; " T_GET},
	{"length of 2^63 - 1", BYTES(POST "Content-Length: 9223372036854775807\r\n\r\nhello"), "POST / host=h 1.1 keep sized(hello..."},
	{"GET with a body", BYTES("GET / HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\nhello" GET H "\r\n"), "GET / host=h 1.1 keep sized(hello); " T_GET},
	{"HEAD with a body", BYTES("HEAD / HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\nhello" GET H "\r\n"), "HEAD / host=h 1.1 keep sized(hello); " T_GET},
	{"expectation", BYTES(POST "Expect: 100-Continue\r\nContent-Length: 2\r\n\r\nhi"), "POST / host=h 1.1 keep continue sized(hi); "},
	{"expectation without a body", BYTES(POST "Expect: 100-continue\r\n\r\n"), "POST / host=h 1.1 keep none; "},
	{"expectation in HTTP/1.0", BYTES("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi"), "POST / host= 1.0 close sized(hi); "},
	{"chunks", BYTES(CHUNKED "5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n"), "POST / host=h 1.1 keep chunked(hello!); "},
	{"Chunked with a capital", BYTES(POST "TRANSFER-ENCODING: Chunked \r\n\r\n0\r\n\r\n"), "POST / host=h 1.1 keep chunked(); "},
	{"empty chunked body", BYTES(CHUNKED "0\r\n\r\n" GET H "\r\n"), "POST / host=h 1.1 keep chunked(); " T_GET},
	{"chunk data that looks like framing", BYTES(CHUNKED "7\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n"), "POST / host=h 1.1 keep chunked(\r\n0\r\n\r\n); "},
	{"sizes with zeros and both cases", BYTES(CHUNKED "000000000000000A\r\n0123456789\r\n0b\r\n0123456789a\r\n0000000000000000\r\n\r\n"), "POST / host=h 1.1 keep chunked(01234567890123456789a); "},
	{"extensions", BYTES(CHUNKED "5;a\r\nhello\r\n1;b=\"c;d\";e\r\n!\r\n0;f=g\r\n\r\n"), "POST / host=h 1.1 keep chunked(hello!); "},
	{"trailers are dropped", BYTES(CHUNKED "2\r\nhi\r\n0\r\nA: b\r\nC:\r\nD: \t e\xc3\xa9 \r\n\r\n" GET H "\r\n"), "POST / host=h 1.1 keep chunked(hi); " T_GET},
	{"trailers do not change the framing", BYTES(CHUNKED "0\r\nContent-Length: 5\r\nConnection: upgrade\r\nUpgrade: x\r\nHost: i\r\n\r\n" GET H "\r\n"), "POST / host=h 1.1 keep chunked(); " T_GET},
	{"chunk of 2^63 - 1", BYTES(CHUNKED "7fffffffffffffff\r\nhello"), "POST / host=h 1.1 keep chunked(hello..."},
	{"many in one piece", BYTES(GET H "\r\n" CHUNKED "1\r\na\r\n0\r\n\r\n" POST "Content-Length: 1\r\n\r\nb" GET H "\r\n"), T_GET "POST / host=h 1.1 keep chunked(a); POST / host=h 1.1 keep sized(b); " T_GET},
	{"a head that does not end", BYTES(GET H), "..."},
};
/* clang-format on */

#undef BYTES

#endif
