sentencepiece.o: lib/text/sentencepiece.cc lib/text/sentencepiece.h
lib/text/sentencepiece.h:
