/*
 * What servers send and what must come of it. Each is fed whole, byte by byte and cut in two at
 * every place. The bad ones must be refused with a sentence that holds these words; of the good
 * ones the whole trace is expected (see tests/http_response_trace.h).
 */
#ifndef BERTH_TESTS_HTTP_RESPONSE_CASES_H
#define BERTH_TESTS_HTTP_RESPONSE_CASES_H

#include <stdbool.h>

#include "base/str.h"

#define OK      "HTTP/1.1 200 OK\r\n"
#define CHUNKED OK "Transfer-Encoding: chunked\r\n\r\n"
#define T_OK    "200 \"OK\" 1.1 keep "
#define BYTES(text)                                                                                \
	{                                                                                          \
		text, sizeof(text) - 1                                                             \
	}

struct response_case {
	const char *name;
	struct str input;
	const char *expected; /* words of the sentence, or the trace */
	bool is_bodiless;
};

/* clang-format off */
static const struct response_case bad_cases[] = {
	/* Lines and bytes */
	{"LF alone ends the status line", BYTES("HTTP/1.1 200 OK\nA: b\r\n\r\n"), "LF alone"},
	{"LF alone ends a header line", BYTES(OK "A: b\n\r\n"), "LF alone"},
	{"LF alone ends the head", BYTES(OK "A: b\r\n\n"), "begin with a name"},
	{"LF alone everywhere", BYTES("HTTP/1.1 200 OK\nA: b\n\n"), "LF alone"},
	{"CR alone in the reason", BYTES("HTTP/1.1 200 O\rK\r\n\r\n"), "CR"},
	{"CR alone in a value", BYTES(OK "A: b\rSet-Cookie: c\r\n\r\n"), "CR"},
	{"CR CR LF", BYTES(OK "A: b\r\r\n\r\n"), "CR"},
	{"CR alone before the head's end", BYTES(OK "\rX"), "CR"},
	{"empty line in front", BYTES("\r\n" OK "\r\n"), "begin with HTTP/"},
	{"LF in front", BYTES("\n" OK "\r\n"), "begin with HTTP/"},
	{"space in front", BYTES(" " OK "\r\n"), "begin with HTTP/"},
	{"byte-order mark", BYTES("\xef\xbb\xbf" OK "\r\n"), "begin with HTTP/"},
	{"NUL in front", BYTES("\0" OK "\r\n"), "begin with HTTP/"},
	{"HTTP/0.9", BYTES("<html>hello</html>"), "begin with HTTP/"},
	{"TLS alert", BYTES("\x15\x03\x01\x00\x02\x02\x16"), "TLS"},
	{"SSH", BYTES("SSH-2.0-OpenSSH_9.2\r\n"), "begin with HTTP/"},
	{"NUL in the reason", BYTES("HTTP/1.1 200 O\0K\r\n\r\n"), "control"},
	{"NUL in a name", BYTES(OK "X\0Y: z\r\n\r\n"), "control"},
	{"NUL in a value", BYTES(OK "X: a\0b\r\n\r\n"), "control"},
	{"escape character in the reason", BYTES("HTTP/1.1 200 \x1b[2J\r\n\r\n"), "control"},
	{"vertical tab in a value", BYTES(OK "X: a\x0b" "b\r\n\r\n"), "control"},
	{"DEL in a value", BYTES(OK "X: \x7f\r\n\r\n"), "control"},

	/* Status line */
	{"shoutcast", BYTES("ICY 200 OK\r\n\r\n"), "begin with HTTP/"},
	{"version in lower case", BYTES("http/1.1 200 OK\r\n\r\n"), "begin with HTTP/"},
	{"version of another protocol", BYTES("HTCPCP/1.0 200 OK\r\n\r\n"), "version"},
	{"HTTP/2", BYTES("HTTP/2 200 OK\r\n\r\n"), "version"},
	{"HTTP/2.0", BYTES("HTTP/2.0 200 OK\r\n\r\n"), "HTTP/2.0"},
	{"HTTP/1.2", BYTES("HTTP/1.2 200 OK\r\n\r\n"), "HTTP/1.2"},
	{"HTTP/0.9 with a status", BYTES("HTTP/0.9 200 OK\r\n\r\n"), "HTTP/0.9"},
	{"version with two digits", BYTES("HTTP/1.10 200 OK\r\n\r\n"), "version"},
	{"version with a leading zero", BYTES("HTTP/01.1 200 OK\r\n\r\n"), "version"},
	{"version alone", BYTES("HTTP/1.1\r\n\r\n"), "version"},
	{"two spaces behind the version", BYTES("HTTP/1.1  200 OK\r\n\r\n"), "three digits"},
	{"tab behind the version", BYTES("HTTP/1.1\t200 OK\r\n\r\n"), "version"},
	{"no status", BYTES("HTTP/1.1 \r\n\r\n"), "three digits"},
	{"status of two digits", BYTES("HTTP/1.1 20 OK\r\n\r\n"), "three digits"},
	{"status of four digits", BYTES("HTTP/1.1 2000 OK\r\n\r\n"), "100 to 999"},
	{"status below 100", BYTES("HTTP/1.1 099 OK\r\n\r\n"), "100 to 999"},
	{"negative status", BYTES("HTTP/1.1 -20 OK\r\n\r\n"), "three digits"},
	{"hexadecimal status", BYTES("HTTP/1.1 2a0 OK\r\n\r\n"), "three digits"},
	{"tab behind the status", BYTES("HTTP/1.1 200\tOK\r\n\r\n"), "100 to 999"},
	{"reason at the status", BYTES("HTTP/1.1 200OK\r\n\r\n"), "100 to 999"},
	{"a request", BYTES("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n"), "version"},
	{"another request", BYTES("GET / HTTP/1.1\r\nHost: h\r\n\r\n"), "begin with HTTP/"},

	/* Header lines */
	{"folded line", BYTES(OK "X: a\r\n b\r\n\r\n"), "folded"},
	{"line folded with a tab", BYTES(OK "X: a\r\n\tb\r\n\r\n"), "folded"},
	{"fold behind the status line", BYTES(OK " X: a\r\n\r\n"), "folded"},
	{"folded Content-Length", BYTES(OK "Content-Length:\r\n 5\r\n\r\nhello"), "folded"},
	{"space before the colon", BYTES(OK "Content-Length : 5\r\n\r\nhello"), "colon"},
	{"tab before the colon", BYTES(OK "Transfer-Encoding\t: chunked\r\n\r\n"), "colon"},
	{"space in a name", BYTES(OK "X Y: z\r\n\r\n"), "colon"},
	{"empty name", BYTES(OK ": z\r\n\r\n"), "name"},
	{"no colon", BYTES(OK "X\r\n\r\n"), "colon"},
	{"name not a token", BYTES(OK "X(Y): z\r\n\r\n"), "colon"},
	{"name with a byte above 0x7f", BYTES(OK "X\xc3\xa9: z\r\n\r\n"), "colon"},

	/* Content-Length */
	{"two lengths", BYTES(OK "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"), "Content-Length"},
	{"the same length twice", BYTES(OK "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"), "Content-Length"},
	{"two lengths to HEAD", BYTES(OK "content-length: 5\r\nCONTENT-LENGTH: 5\r\n\r\n"), "Content-Length", true},
	{"list of lengths", BYTES(OK "Content-Length: 5, 5\r\n\r\nhello"), "Content-Length"},
	{"positive length", BYTES(OK "Content-Length: +5\r\n\r\nhello"), "Content-Length"},
	{"negative length", BYTES(OK "Content-Length: -5\r\n\r\nhello"), "Content-Length"},
	{"hexadecimal length", BYTES(OK "Content-Length: 0x5\r\n\r\nhello"), "Content-Length"},
	{"fractional length", BYTES(OK "Content-Length: 5.0\r\n\r\nhello"), "Content-Length"},
	{"length with a space inside", BYTES(OK "Content-Length: 5 5\r\n\r\nhello"), "Content-Length"},
	{"quoted length", BYTES(OK "Content-Length: \"5\"\r\n\r\nhello"), "Content-Length"},
	{"empty length", BYTES(OK "Content-Length:\r\n\r\n"), "Content-Length"},
	{"bad length to HEAD", BYTES(OK "Content-Length: x\r\n\r\n"), "Content-Length", true},
	{"bad length of 304", BYTES("HTTP/1.1 304 Not Modified\r\nContent-Length: 1x\r\n\r\n"), "Content-Length"},
	{"length of 2^63", BYTES(OK "Content-Length: 9223372036854775808\r\n\r\n"), "2^63"},
	{"length of 2^64 + 5", BYTES(OK "Content-Length: 18446744073709551621\r\n\r\nhello"), "ontent-Length"},

	/* Transfer-Encoding */
	{"length, then coding", BYTES(OK "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), "Transfer-Encoding"},
	{"coding, then length", BYTES(OK "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"), "Content-Length"},
	{"coding and length 0", BYTES(OK "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n"), "Content-Length"},
	{"coding and length to HEAD", BYTES(OK "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"), "Transfer-Encoding", true},
	{"unknown coding and length", BYTES(OK "Content-Length: 5\r\nTransfer-Encoding: gzip\r\n\r\nhello"), "Transfer-Encoding"},
	{"two codings", BYTES(OK "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), "Transfer-Encoding"},
	{"chunked twice", BYTES(OK "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), "Transfer-Encoding"},
	{"chunked twice in a list", BYTES(OK "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"), "Transfer-Encoding"},
	{"chunked, then identity", BYTES(OK "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n"), "Transfer-Encoding"},
	{"chunked not last", BYTES(OK "Transfer-Encoding: chunked, gzip\r\n\r\n"), "Transfer-Encoding"},
	{"gzip", BYTES(OK "Transfer-Encoding: gzip\r\n\r\n"), "Transfer-Encoding"},
	{"gzip, chunked", BYTES(OK "Transfer-Encoding: gzip, chunked\r\n\r\n"), "Transfer-Encoding"},
	{"identity", BYTES(OK "Transfer-Encoding: identity\r\n\r\n"), "Transfer-Encoding"},
	{"xchunked", BYTES(OK "Transfer-Encoding: xchunked\r\n\r\n"), "Transfer-Encoding"},
	{"quoted chunked", BYTES(OK "Transfer-Encoding: \"chunked\"\r\n\r\n"), "Transfer-Encoding"},
	{"chunked with a comma", BYTES(OK "Transfer-Encoding: chunked,\r\n\r\n"), "Transfer-Encoding"},
	{"empty coding", BYTES(OK "Transfer-Encoding:\r\n\r\n"), "Transfer-Encoding"},
	{"vertical tab before chunked", BYTES(OK "Transfer-Encoding: \x0b" "chunked\r\n\r\n"), "control"},
	{"chunked in HTTP/1.0", BYTES("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), "HTTP/1.0"},
	{"chunked in HTTP/1.0 to HEAD", BYTES("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), "HTTP/1.0", true},

	/* Statuses that have no body */
	{"chunked 100", BYTES("HTTP/1.1 100 Continue\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), "status 100"},
	{"length of 100", BYTES("HTTP/1.1 100 Continue\r\nContent-Length: 5\r\n\r\nhello"), "status 100"},
	{"length 0 of 103", BYTES("HTTP/1.1 103 Early Hints\r\nContent-Length: 0\r\n\r\n"), "status 103"},
	{"chunked 101", BYTES("HTTP/1.1 101 Switching Protocols\r\nTransfer-Encoding: chunked\r\n\r\n"), "status 101"},
	{"length of 101", BYTES("HTTP/1.1 101 Switching Protocols\r\nContent-Length: 5\r\n\r\n"), "status 101"},
	{"chunked 204", BYTES("HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), "status 204"},
	{"chunked 204 to HEAD", BYTES("HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n"), "status 204", true},
	{"length of 204", BYTES("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello"), "status 204"},
	{"length 0 twice of 204", BYTES("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n"), "Content-Length"},

	/* Chunks and trailers: those of requests, see http_cases.h */
	{"size not hexadecimal", BYTES(CHUNKED "g\r\n"), "size"},
	{"size with 0x", BYTES(CHUNKED "0x5\r\nhello\r\n"), "size"},
	{"space behind the size", BYTES(CHUNKED "5 \r\nhello\r\n"), "size"},
	{"LF alone behind the size", BYTES(CHUNKED "5\nhello\r\n"), "size"},
	{"space in an extension", BYTES(CHUNKED "5;a= b\r\nhello\r\n"), "extension"},
	{"longer than its size", BYTES(CHUNKED "4\r\nhello\r\n0\r\n\r\n"), "longer"},
	{"size of 2^64 + 5", BYTES(CHUNKED "10000000000000005\r\nhello\r\n"), "size"},
	{"folded trailer", BYTES(CHUNKED "0\r\nA: b\r\n c\r\n\r\n"), "trailer"},
	{"LF alone behind a trailer", BYTES(CHUNKED "0\r\nA: b\n\r\n"), "trailer"},
	{"a response as a trailer", BYTES(CHUNKED "0\r\nHTTP/1.1 200 OK\r\n\r\n"), "trailer"},

	/* Behind a good message */
	{"data behind a sized body", BYTES(OK "Content-Length: 5\r\n\r\nhello!"), "begin with HTTP/"},
	{"data behind a chunked body", BYTES(CHUNKED "0\r\n\r\n\r\n"), "begin with HTTP/"},
	{"body of HEAD", BYTES(OK "Content-Length: 5\r\n\r\nhello"), "begin with HTTP/", true},
	{"body of 204", BYTES("HTTP/1.1 204 No Content\r\n\r\nhello"), "begin with HTTP/"},
	{"body of 304", BYTES("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nhello"), "begin with HTTP/"},
	{"body of 100", BYTES("HTTP/1.1 100 Continue\r\n\r\nhello"), "begin with HTTP/"},
};

static const struct response_case good_cases[] = {
	{"the least", BYTES("HTTP/1.1 200 \r\n\r\n"), "200 \"\" 1.1 close until()"},
	{"no space behind the status", BYTES("HTTP/1.1 200\r\n\r\n"), "200 \"\" 1.1 close until()"},
	{"reasons of any kind", BYTES("HTTP/1.1 299 a \tb: \xc3\xa9/\xff \r\nContent-Length: 0\r\n\r\n"), "299 \"a \tb: \xc3\xa9/\xff \" 1.1 keep length=0 [Content-Length=0] none; "},
	{"status 999", BYTES("HTTP/1.1 999 Denied\r\nContent-Length: 0\r\n\r\n"), "999 \"Denied\" 1.1 keep length=0 [Content-Length=0] none; "},
	{"sized", BYTES(OK "Content-Length: 5\r\n\r\nhello"), T_OK "length=5 [Content-Length=5] sized(hello); "},
	{"sized, of any bytes", BYTES(OK "Content-Length: 6\r\n\r\n\r\n\x01\x7f\n\r"), T_OK "length=6 [Content-Length=6] sized(\r\n\x01\x7f\n\r); "},
	{"length with leading zeros", BYTES(OK "Content-Length: 0000000000000000000000000005\r\n\r\nhello"), T_OK "length=5 [Content-Length=0000000000000000000000000005] sized(hello); "},
	{"length of 2^63 - 1", BYTES(OK "Content-Length: 9223372036854775807\r\n\r\nhello"), T_OK "length=9223372036854775807 [Content-Length=9223372036854775807] sized(hello..."},
	{"length 0", BYTES(OK "Content-Length: 0\r\n\r\n"), T_OK "length=0 [Content-Length=0] none; "},
	{"sized and closed", BYTES(OK "Connection: close\r\nContent-Length: 2\r\n\r\nhi"), "200 \"OK\" 1.1 close length=2 [Connection=close] [Content-Length=2] sized(hi); "},
	{"close in a list", BYTES(OK "Connection: x ,\tCLOSE\r\nContent-Length: 0\r\n\r\n"), "200 \"OK\" 1.1 close length=0 [Connection=x ,\tCLOSE] [Content-Length=0] none; "},
	{"until the end", BYTES(OK "A: b\r\n\r\nhello\r\n" OK), "200 \"OK\" 1.1 close [A=b] until(hello\r\nHTTP/1.1 200 OK\r\n)"},
	{"chunks", BYTES(CHUNKED "5\r\nhello\r\n1;a=b\r\n!\r\n0\r\n\r\n"), T_OK "[Transfer-Encoding=chunked] chunked(hello!); "},
	{"Chunked with a capital", BYTES(OK "TRANSFER-ENCODING:Chunked \r\n\r\n0\r\n\r\n"), T_OK "[TRANSFER-ENCODING=Chunked] chunked(); "},
	{"chunk data that looks like framing", BYTES(CHUNKED "7\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n"), T_OK "[Transfer-Encoding=chunked] chunked(\r\n0\r\n\r\n); "},
	{"trailers", BYTES(CHUNKED "2\r\nhi\r\n0\r\nA: b\r\nC:\r\nD:  e\xc3\xa9 \r\n\r\n"), T_OK "[Transfer-Encoding=chunked] chunked(hi){A: b\r\nC:\r\nD:  e\xc3\xa9 \r\n}; "},
	{"trailers of the second of three", BYTES(CHUNKED "0\r\n\r\n" CHUNKED "0\r\nA: b\r\n\r\n" CHUNKED "0\r\n\r\n"), T_OK "[Transfer-Encoding=chunked] chunked(); " T_OK "[Transfer-Encoding=chunked] chunked(){A: b\r\n}; " T_OK "[Transfer-Encoding=chunked] chunked(); "},
	{"trailers that do not change the framing", BYTES(CHUNKED "0\r\nContent-Length: 5\r\nConnection: close\r\n\r\n" OK "Content-Length: 0\r\n\r\n"), T_OK "[Transfer-Encoding=chunked] chunked(){Content-Length: 5\r\nConnection: close\r\n}; " T_OK "length=0 [Content-Length=0] none; "},
	{"a head that does not end", BYTES(OK "A: b\r\n"), "..."},
	{"a chunk that does not end", BYTES(CHUNKED "5\r\nhel"), T_OK "[Transfer-Encoding=chunked] chunked(hel..."},

	/* No body */
	{"length to HEAD", BYTES(OK "Content-Length: 5\r\n\r\n"), T_OK "length=5 [Content-Length=5] none; ", true},
	{"chunked to HEAD", BYTES(CHUNKED), T_OK "[Transfer-Encoding=chunked] none; ", true},
	{"neither to HEAD", BYTES(OK "\r\n"), T_OK "none; ", true},
	{"204", BYTES("HTTP/1.1 204 No Content\r\n\r\n"), "204 \"No Content\" 1.1 keep none; "},
	{"204 with length 0", BYTES("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"), "204 \"No Content\" 1.1 keep length=0 [Content-Length=0] none; "},
	{"304", BYTES("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n"), "304 \"Not Modified\" 1.1 keep [ETag=\"a\"] none; "},
	{"304 with a length", BYTES("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"), "304 \"Not Modified\" 1.1 keep length=5 [Content-Length=5] none; "},
	{"304 chunked", BYTES("HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n"), "304 \"Not Modified\" 1.1 keep [Transfer-Encoding=chunked] none; "},
	{"205 with a length", BYTES("HTTP/1.1 205 Reset Content\r\nContent-Length: 2\r\n\r\nhi"), "205 \"Reset Content\" 1.1 keep length=2 [Content-Length=2] sized(hi); "},

	/* HTTP/1.0 */
	{"HTTP/1.0 until the end", BYTES("HTTP/1.0 200 OK\r\n\r\nhi"), "200 \"OK\" 1.0 close until(hi)"},
	{"HTTP/1.0 with a length", BYTES("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi"), "200 \"OK\" 1.0 close length=2 [Content-Length=2] sized(hi); "},
	{"HTTP/1.0 kept alive", BYTES("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nhi"), "200 \"OK\" 1.0 keep length=2 [Connection=Keep-Alive] [Content-Length=2] sized(hi); "},
	{"HTTP/1.0 kept alive without a length", BYTES("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nhi"), "200 \"OK\" 1.0 close [Connection=keep-alive] until(hi)"},
	{"HTTP/1.0 kept alive and closed", BYTES("HTTP/1.0 200 OK\r\nConnection: keep-alive, close\r\nContent-Length: 0\r\n\r\n"), "200 \"OK\" 1.0 close length=0 [Connection=keep-alive, close] [Content-Length=0] none; "},

	/* Several */
	{"100, then 200", BYTES("HTTP/1.1 100 Continue\r\n\r\n" OK "Content-Length: 2\r\n\r\nhi"), "100 \"Continue\" 1.1 keep none; " T_OK "length=2 [Content-Length=2] sized(hi); "},
	{"103 twice, then chunks", BYTES("HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n" CHUNKED "2\r\nhi\r\n0\r\n\r\n"), "103 \"Early Hints\" 1.1 keep [Link=</a.css>; rel=preload] none; 103 \"Early Hints\" 1.1 keep none; " T_OK "[Transfer-Encoding=chunked] chunked(hi); "},
	{"100, then one to HEAD", BYTES("HTTP/1.1 100 Continue\r\n\r\n" OK "Content-Length: 5\r\n\r\n"), "100 \"Continue\" 1.1 keep none; " T_OK "length=5 [Content-Length=5] none; ", true},
	{"kept alive: sized, chunked, none, until the end", BYTES(OK "Content-Length: 1\r\n\r\na" CHUNKED "1\r\nb\r\n0\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n" OK "\r\nc"), T_OK "length=1 [Content-Length=1] sized(a); " T_OK "[Transfer-Encoding=chunked] chunked(b); 204 \"No Content\" 1.1 keep none; 200 \"OK\" 1.1 close until(c)"},
	{"upgrade", BYTES("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x02hi"), "101 \"Switching Protocols\" 1.1 close [Connection=Upgrade] [Upgrade=websocket] raw(\x81\x02hi)"},
	{"upgrade behind 100", BYTES("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 \r\nUpgrade: x\r\n\r\n" OK), "100 \"Continue\" 1.1 keep none; 101 \"\" 1.1 close [Upgrade=x] raw(HTTP/1.1 200 OK\r\n)"},

	/* As real servers say it */
	{"Python http.server", BYTES("HTTP/1.0 200 OK\r\nServer: SimpleHTTP/0.6 Python/3.11.2\r\nDate: Tue, 17 Nov 2026 07:00:00 GMT\r\nContent-type: text/html\r\nContent-Length: 2\r\nLast-Modified: Tue, 17 Nov 2026 06:00:00 GMT\r\n\r\nhi"), "200 \"OK\" 1.0 close length=2 [Server=SimpleHTTP/0.6 Python/3.11.2] [Date=Tue, 17 Nov 2026 07:00:00 GMT] [Content-type=text/html] [Content-Length=2] [Last-Modified=Tue, 17 Nov 2026 06:00:00 GMT] sized(hi); "},
	{"Node", BYTES(OK "Content-Type: text/event-stream\r\nDate: Tue, 17 Nov 2026 07:00:00 GMT\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n0\r\n\r\n"), T_OK "[Content-Type=text/event-stream] [Date=Tue, 17 Nov 2026 07:00:00 GMT] [Connection=keep-alive] [Keep-Alive=timeout=5] [Transfer-Encoding=chunked] chunked(data: 1\n\n); "},
	{"nginx", BYTES("HTTP/1.1 404 Not Found\r\nServer: nginx/1.22.1\r\nDate: Tue, 17 Nov 2026 07:00:00 GMT\r\nContent-Type: text/html\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nno"), "404 \"Not Found\" 1.1 keep length=2 [Server=nginx/1.22.1] [Date=Tue, 17 Nov 2026 07:00:00 GMT] [Content-Type=text/html] [Content-Length=2] [Connection=keep-alive] sized(no); "},
	{"Go", BYTES("HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nDate: Tue, 17 Nov 2026 07:00:00 GMT\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 1\r\n\r\n"), T_OK "[Trailer=X-Sum] [Date=Tue, 17 Nov 2026 07:00:00 GMT] [Transfer-Encoding=chunked] chunked(hi){X-Sum: 1\r\n}; "},
	{"Go, spoken to without TLS", BYTES("HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"), "400 \"Bad Request\" 1.0 close until(Client sent an HTTP request to an HTTPS server.\n)"},
	{"uvicorn", BYTES("HTTP/1.1 200 OK\r\ndate: Tue, 17 Nov 2026 07:00:00 GMT\r\nserver: uvicorn\r\ncontent-length: 2\r\ncontent-type: application/json\r\n\r\n{}"), T_OK "length=2 [date=Tue, 17 Nov 2026 07:00:00 GMT] [server=uvicorn] [content-length=2] [content-type=application/json] sized({}); "},
	{"PHP's own server", BYTES(OK "Host: localhost:8000\r\nConnection: close\r\nX-Powered-By: PHP/8.2\r\nContent-type: text/html; charset=UTF-8\r\n\r\nhi"), "200 \"OK\" 1.1 close [Host=localhost:8000] [Connection=close] [X-Powered-By=PHP/8.2] [Content-type=text/html; charset=UTF-8] until(hi)"},
	{"empty values and several cookies", BYTES(OK "Server:\r\nSet-Cookie: a=b; Path=/\r\nSet-Cookie: c=\"d\"\r\nContent-Length: 0\r\n\r\n"), T_OK "length=0 [Server=] [Set-Cookie=a=b; Path=/] [Set-Cookie=c=\"d\"] [Content-Length=0] none; "},
};
/* clang-format on */

#undef BYTES

#endif
