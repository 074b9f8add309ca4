//! Converts tokens to the tree of one module. The parser stops at the first syntax error: a syntax error means a broken
//! file, not an unsupported feature, and nothing after it can be trusted.

use super::ast::{
    Function, Init, InlinedAt, Instruction, Loc, Module, Operand, Pos, Space, Statement, Variable,
};
use super::error::SyntaxError;
use super::lexer::{Lexer, Token};

type Result<T> = std::result::Result<T, SyntaxError>;

/// No real operand nests deeper than `[tensor, {x, y}]`.
const MAX_NESTING: u32 = 8;

pub fn parse(text: &str) -> Result<Module<'_>> {
    let mut lexer = Lexer::new(text);
    let (token, pos) = lexer.next()?;
    Parser { lexer, token, pos, module: Module::default() }.module()
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    token: Token<'a>,
    pos: Pos,
    module: Module<'a>,
}

impl<'a> Parser<'a> {
    fn fail<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(SyntaxError { pos: self.pos, message: message.into() })
    }

    fn advance(&mut self) -> Result<Token<'a>> {
        let token = self.token;
        (self.token, self.pos) = self.lexer.next()?;
        Ok(token)
    }

    fn describe(&self) -> String {
        match self.token {
            Token::Word(w) => format!("`{w}`"),
            Token::Punct(c) => format!("`{}`", c as char),
            Token::End => "end of file".into(),
            Token::Str(_) => "a string".into(),
            Token::Int(_) | Token::F32(_) | Token::F64(_) => "a number".into(),
        }
    }

    fn is(&self, c: u8) -> bool {
        self.token == Token::Punct(c)
    }

    fn eat(&mut self, c: u8) -> Result<bool> {
        if self.is(c) {
            self.advance()?;
            return Ok(true);
        }
        Ok(false)
    }

    fn expect(&mut self, c: u8) -> Result<()> {
        if self.eat(c)? {
            return Ok(());
        }
        self.fail(format!("expected `{}`, found {}", c as char, self.describe()))
    }

    fn word(&mut self) -> Result<&'a str> {
        match self.token {
            Token::Word(w) => {
                self.advance()?;
                Ok(w)
            }
            _ => self.fail(format!("expected a name, found {}", self.describe())),
        }
    }

    fn eat_word(&mut self, word: &str) -> Result<bool> {
        if self.token == Token::Word(word) {
            self.advance()?;
            return Ok(true);
        }
        Ok(false)
    }

    fn int(&mut self) -> Result<u64> {
        let negative = self.eat(b'-')?;
        match self.token {
            Token::Int(v) => {
                self.advance()?;
                Ok(if negative { v.wrapping_neg() } else { v })
            }
            _ => self.fail(format!("expected an integer, found {}", self.describe())),
        }
    }

    fn int32(&mut self) -> Result<u32> {
        let value = self.int()?;
        u32::try_from(value).or_else(|_| self.fail("number is too large"))
    }

    fn module(mut self) -> Result<Module<'a>> {
        loop {
            match self.token {
                Token::End => return Ok(self.module),
                Token::Word(word) => self.top_level(word)?,
                Token::Punct(b';') => {
                    self.advance()?;
                }
                _ => return self.fail(format!("expected a directive, found {}", self.describe())),
            }
        }
    }

    fn top_level(&mut self, word: &'a str) -> Result<()> {
        match word {
            ".version" => {
                self.advance()?;
                // `8.4` lexes as a decimal. The minor version is its first decimal digit.
                match self.advance()? {
                    Token::F64(bits) => {
                        let v = f64::from_bits(bits);
                        self.module.version = (v as u32, ((v * 10.0).round() as u32) % 10);
                    }
                    Token::Int(v) => self.module.version = (v as u32, 0),
                    _ => return self.fail("expected a version number"),
                }
            }
            ".target" => {
                self.advance()?;
                self.module.target = self.word()?;
                while self.eat(b',')? {
                    self.word()?;
                }
            }
            ".address_size" => {
                self.advance()?;
                if self.int()? != 64 {
                    return self.fail("only .address_size 64 is supported");
                }
            }
            ".file" => {
                self.advance()?;
                let index = self.int32()?;
                let Token::Str(name) = self.advance()? else {
                    return self.fail("expected a file name");
                };
                self.module.files.push((index, name));
                while self.eat(b',')? {
                    self.int()?;
                }
            }
            ".section" => self.section()?,
            ".extern" | ".visible" | ".weak" | ".common" | ".entry" | ".func" | ".global" | ".const"
            | ".shared" => {
                self.linked()?;
            }
            _ => {
                self.module.ignored.push((word, self.pos));
                self.skip_directive()?;
            }
        }
        Ok(())
    }

    /// Skips an unknown directive: to its `;`, past its `{...}`, or to the next line that starts a directive.
    fn skip_directive(&mut self) -> Result<()> {
        let line = self.pos.line;
        self.advance()?;
        loop {
            match self.token {
                Token::End => return Ok(()),
                Token::Punct(b';') => {
                    self.advance()?;
                    return Ok(());
                }
                Token::Punct(b'{') => return self.skip_braces(),
                Token::Word(w) if w.starts_with('.') && self.pos.line != line => return Ok(()),
                _ => {
                    self.advance()?;
                }
            }
        }
    }

    fn skip_braces(&mut self) -> Result<()> {
        let mut depth = 0usize;
        loop {
            match self.advance()? {
                Token::Punct(b'{') => depth += 1,
                Token::Punct(b'}') => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return Ok(());
                    }
                }
                Token::End => return self.fail("unbalanced `{`"),
                _ => {}
            }
        }
    }

    /// `.section .debug_str { label: .b8 1,2,3 ... }`. Only the strings are kept.
    fn section(&mut self) -> Result<()> {
        self.advance()?;
        let name = self.word()?;
        if name != ".debug_str" {
            return self.skip_braces();
        }
        self.expect(b'{')?;
        let mut current: Option<(&'a str, Vec<u8>)> = None;
        loop {
            match self.advance()? {
                Token::Punct(b'}') => break,
                Token::End => return self.fail("unbalanced `{`"),
                Token::Word(w) if !w.starts_with('.') && self.is(b':') => {
                    self.advance()?;
                    self.flush_string(&mut current);
                    current = Some((w, Vec::new()));
                }
                Token::Int(v) => {
                    if let Some((_, bytes)) = &mut current {
                        bytes.push(v as u8);
                    }
                }
                _ => {}
            }
        }
        self.flush_string(&mut current);
        Ok(())
    }

    fn flush_string(&mut self, current: &mut Option<(&'a str, Vec<u8>)>) {
        if let Some((label, bytes)) = current.take() {
            let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
            let text = String::from_utf8_lossy(&bytes[..end]).into_owned();
            self.module.debug_strings.push((label, text));
        }
    }

    fn linked(&mut self) -> Result<()> {
        let mut external = false;
        loop {
            match self.token {
                Token::Word(".extern") => {
                    external = true;
                    self.advance()?;
                }
                Token::Word(".visible" | ".weak" | ".common") => {
                    self.advance()?;
                }
                Token::Word(".entry") => {
                    self.advance()?;
                    return self.function(true);
                }
                Token::Word(".func") => {
                    self.advance()?;
                    return self.function(false);
                }
                _ => {
                    let mut variables = self.variable(external)?;
                    self.module.variables.append(&mut variables);
                    return Ok(());
                }
            }
        }
    }

    fn function(&mut self, entry: bool) -> Result<()> {
        let pos = self.pos;
        let mut directives = Vec::new();
        if self.eat_word(".attribute")? {
            self.skip_parens()?;
        }
        let returns = if self.is(b'(') { self.parameters()? } else { Vec::new() };
        let name = self.word()?;
        let params = if self.is(b'(') { self.parameters()? } else { Vec::new() };
        let body = loop {
            match self.token {
                Token::Punct(b';') => {
                    self.advance()?;
                    break None;
                }
                Token::Punct(b'{') => break Some(self.body()?),
                Token::Word(word) if word.starts_with('.') => {
                    self.advance()?;
                    let mut numbers = Vec::new();
                    while matches!(self.token, Token::Int(_)) {
                        numbers.push(self.int()?);
                        if !self.eat(b',')? {
                            break;
                        }
                    }
                    if matches!(self.token, Token::Str(_)) {
                        self.advance()?;
                    }
                    directives.push((word, numbers));
                }
                _ => return self.fail(format!("expected a function body, found {}", self.describe())),
            }
        };
        self.module.functions.push(Function { name, entry, params, returns, body, directives, pos });
        Ok(())
    }

    fn skip_parens(&mut self) -> Result<()> {
        self.attributes().map(|_| ())
    }

    /// Skips a list in parentheses, and returns whether it contains `.managed`.
    fn attributes(&mut self) -> Result<bool> {
        let (mut depth, mut managed) = (0usize, false);
        loop {
            match self.advance()? {
                Token::Punct(b'(') => depth += 1,
                Token::Punct(b')') => depth = depth.saturating_sub(1),
                Token::Word(".managed") => managed = true,
                Token::End => return self.fail("unbalanced `(`"),
                _ => {}
            }
            if depth == 0 {
                return Ok(managed);
            }
        }
    }

    fn parameters(&mut self) -> Result<Vec<Variable<'a>>> {
        self.expect(b'(')?;
        let mut params = Vec::new();
        while !self.is(b')') {
            params.push(self.declarator_head(false)?);
            if !self.eat(b',')? {
                break;
            }
        }
        self.expect(b')')?;
        Ok(params)
    }

    /// Parses one declaration statement. Commas separate several variables.
    fn variable(&mut self, external: bool) -> Result<Vec<Variable<'a>>> {
        let mut variables = vec![self.declarator_head(external)?];
        while self.eat(b',')? {
            let template = variables[0].clone();
            let next =
                self.declarator(Variable { dims: Vec::new(), init: Vec::new(), range: None, ..template })?;
            variables.push(next);
        }
        self.expect(b';')?;
        Ok(variables)
    }

    fn declarator_head(&mut self, external: bool) -> Result<Variable<'a>> {
        let pos = self.pos;
        let mut variable = Variable {
            name: "",
            space: Space::Param,
            ty: "",
            vector: 1,
            align: None,
            dims: Vec::new(),
            init: Vec::new(),
            external,
            pointer: false,
            managed: false,
            range: None,
            pos,
        };
        while let Token::Word(word) = self.token {
            if !word.starts_with('.') {
                break;
            }
            self.advance()?;
            for part in word[1..].split('.') {
                self.attribute(part, &mut variable)?;
            }
        }
        if variable.ty.is_empty() {
            return self.fail("declaration without a type");
        }
        self.declarator(variable)
    }

    /// Parses one dotted word before the name of a variable: its space, type, alignment or vector width.
    fn attribute(&mut self, part: &'a str, variable: &mut Variable<'a>) -> Result<()> {
        match part {
            "reg" => variable.space = Space::Reg,
            "const" => variable.space = Space::Const,
            "global" => variable.space = Space::Global,
            "local" => variable.space = Space::Local,
            "param" => variable.space = Space::Param,
            "shared" | "shared::cta" => variable.space = Space::Shared,
            "align" => variable.align = Some(self.int32()?),
            "v2" => variable.vector = 2,
            "v4" => variable.vector = 4,
            // The space that a pointer parameter points to is not the space of the parameter itself.
            "ptr" => {
                variable.pointer = true;
                if matches!(self.token, Token::Word(".global" | ".const" | ".local" | ".shared")) {
                    self.advance()?;
                }
                if self.eat_word(".align")? {
                    self.int()?;
                }
            }
            "attribute" => variable.managed |= self.attributes()?,
            _ => variable.ty = part,
        }
        Ok(())
    }

    fn declarator(&mut self, mut variable: Variable<'a>) -> Result<Variable<'a>> {
        variable.pos = self.pos;
        variable.name = self.word()?;
        if self.eat(b'<')? {
            variable.range = Some(self.int32()?);
            self.expect(b'>')?;
        }
        while self.eat(b'[')? {
            let size = if self.is(b']') { 0 } else { self.constant()? };
            variable.dims.push(size);
            self.expect(b']')?;
        }
        if self.eat(b'=')? {
            variable.init = self.initialiser()?;
        }
        Ok(variable)
    }

    /// Parses an initialiser. Nested braces only group rows: the scalars are in memory order.
    fn initialiser(&mut self) -> Result<Vec<Init<'a>>> {
        let mut values = Vec::new();
        let mut depth = 0usize;
        loop {
            match self.token {
                Token::Punct(b'{') => {
                    depth += 1;
                    self.advance()?;
                    continue;
                }
                Token::Punct(b'}') => {}
                _ => values.push(self.init_scalar()?),
            }
            while depth > 0 && self.eat(b'}')? {
                depth -= 1;
            }
            if depth == 0 {
                return Ok(values);
            }
            if !self.eat(b',')? && !self.is(b'}') {
                return self.fail("expected `,` or `}` in an initialiser");
            }
        }
    }

    fn init_scalar(&mut self) -> Result<Init<'a>> {
        match self.token {
            Token::F32(bits) => {
                self.advance()?;
                Ok(Init::F32(bits))
            }
            Token::F64(bits) => {
                self.advance()?;
                Ok(Init::F64(bits))
            }
            Token::Word(word) => {
                self.advance()?;
                // `0xFF(name)` masks and `generic(name)` both take a name in parentheses. Only `generic(name)` occurs
                // in practice.
                let mut name = word;
                if word == "generic" && self.eat(b'(')? {
                    name = self.word()?;
                    self.expect(b')')?;
                }
                Ok(Init::Address { name, offset: self.trailing_offset()? })
            }
            _ => Ok(Init::Int(self.constant()?)),
        }
    }

    /// Parses `+4`, `-4`, `+-4` or nothing.
    fn trailing_offset(&mut self) -> Result<i64> {
        if self.eat(b'+')? {
            return Ok(self.int()? as i64);
        }
        if self.eat(b'-')? {
            return Ok((self.int()? as i64).wrapping_neg());
        }
        Ok(0)
    }

    /// Parses a constant expression without parentheses: sums and products of integers.
    fn constant(&mut self) -> Result<u64> {
        let mut total = self.product()?;
        loop {
            if self.eat(b'+')? {
                total = total.wrapping_add(self.product()?);
            } else if self.eat(b'-')? {
                total = total.wrapping_sub(self.product()?);
            } else {
                return Ok(total);
            }
        }
    }

    fn product(&mut self) -> Result<u64> {
        let mut value = self.int()?;
        while self.eat(b'*')? {
            value = value.wrapping_mul(self.int()?);
        }
        Ok(value)
    }

    fn body(&mut self) -> Result<Vec<Statement<'a>>> {
        self.expect(b'{')?;
        let mut statements = Vec::new();
        let mut depth = 1usize;
        while depth > 0 {
            match self.token {
                Token::Punct(b'{') => {
                    depth += 1;
                    self.advance()?;
                    statements.push(Statement::Open);
                }
                Token::Punct(b'}') => {
                    depth -= 1;
                    self.advance()?;
                    if depth > 0 {
                        statements.push(Statement::Close);
                    }
                }
                Token::Punct(b';') => {
                    self.advance()?;
                }
                Token::Punct(b'@') => statements.push(self.instruction()?),
                Token::Word(word) if word.starts_with('.') => self.body_directive(word, &mut statements)?,
                Token::Word(_) => self.labelled(&mut statements)?,
                Token::End => return self.fail("function body is never closed"),
                _ => return self.fail(format!("expected an instruction, found {}", self.describe())),
            }
        }
        Ok(statements)
    }

    fn body_directive(&mut self, word: &'a str, out: &mut Vec<Statement<'a>>) -> Result<()> {
        // `.reg.b16` may be written as one word.
        let head = word[1..].find('.').map_or(word, |at| &word[..=at]);
        match head {
            ".reg" | ".param" | ".local" | ".shared" | ".global" | ".const" | ".extern" => {
                let external = self.eat_word(".extern")?;
                out.extend(self.variable(external)?.into_iter().map(Statement::Declare));
            }
            ".loc" => {
                self.advance()?;
                let (file, line, column) = (self.int32()?, self.int32()?, self.int32()?);
                let mut inlined = None;
                if self.eat(b',')? {
                    if !self.eat_word("function_name")? {
                        return self.fail("expected `function_name`");
                    }
                    let function = self.word()?;
                    self.trailing_offset()?;
                    self.expect(b',')?;
                    if !self.eat_word("inlined_at")? {
                        return self.fail("expected `inlined_at`");
                    }
                    let (file, line, column) = (self.int32()?, self.int32()?, self.int32()?);
                    inlined = Some(InlinedAt { function, file, line, column });
                }
                out.push(Statement::Loc(Loc { file, line, column, inlined }));
            }
            ".pragma" => {
                self.advance()?;
                while !self.eat(b';')? {
                    if self.advance()? == Token::End {
                        return self.fail("unfinished .pragma");
                    }
                }
            }
            _ => {
                self.module.ignored.push((word, self.pos));
                let line = self.pos.line;
                self.advance()?;
                while !self.is(b';') && !self.is(b'}') && self.token != Token::End && self.pos.line == line {
                    self.advance()?;
                }
            }
        }
        Ok(())
    }

    /// Parses a label, a `.branchtargets` list, or an instruction without a guard.
    fn labelled(&mut self, out: &mut Vec<Statement<'a>>) -> Result<()> {
        // A label is a name directly followed by a colon. The parser looks one token ahead and steps back if there is
        // no colon.
        let Token::Word(name) = self.token else { return self.fail("expected a name") };
        let pos = self.pos;
        let saved = (self.lexer.clone(), self.token, self.pos);
        self.advance()?;
        if !self.eat(b':')? {
            (self.lexer, self.token, self.pos) = saved;
            out.push(self.instruction()?);
            return Ok(());
        }
        if self.eat_word(".branchtargets")? {
            let mut targets = vec![self.word()?];
            while self.eat(b',')? {
                targets.push(self.word()?);
            }
            self.expect(b';')?;
            out.push(Statement::BranchTargets(name, targets));
        } else if self.eat_word(".callprototype")? {
            // A call through a pointer is checked when it runs, without its prototype.
            while !self.eat(b';')? {
                if self.advance()? == Token::End {
                    return self.fail("unfinished .callprototype");
                }
            }
        } else {
            out.push(Statement::Label(name, pos));
        }
        Ok(())
    }

    fn instruction(&mut self) -> Result<Statement<'a>> {
        let guard = if self.eat(b'@')? {
            let negated = self.eat(b'!')?;
            Some((self.word()?, negated))
        } else {
            None
        };
        let pos = self.pos;
        let mnemonic = self.word()?;
        let (opcode, modifiers) = mnemonic.split_once('.').unwrap_or((mnemonic, ""));
        let mut operands = Vec::new();
        while !self.is(b';') {
            operands.push(self.operand(0)?);
            if !self.eat(b',')? {
                break;
            }
        }
        self.expect(b';')?;
        Ok(Statement::Instruction(Instruction { guard, opcode, modifiers, operands, pos }))
    }

    fn operand(&mut self, depth: u32) -> Result<Operand<'a>> {
        let first = self.simple_operand(depth)?;
        if self.eat(b'|')? {
            let second = self.simple_operand(depth)?;
            return Ok(Operand::Pair(Box::new((first, second))));
        }
        Ok(first)
    }

    fn operands_until(&mut self, close: u8, depth: u32) -> Result<Vec<Operand<'a>>> {
        let mut list = Vec::new();
        while !self.is(close) {
            list.push(self.operand(depth)?);
            if !self.eat(b',')? {
                break;
            }
        }
        self.expect(close)?;
        Ok(list)
    }

    fn simple_operand(&mut self, depth: u32) -> Result<Operand<'a>> {
        if depth > MAX_NESTING {
            return self.fail("operand nests too deep");
        }
        match self.token {
            Token::Punct(b'{') => {
                self.advance()?;
                Ok(Operand::Vector(self.operands_until(b'}', depth + 1)?))
            }
            Token::Punct(b'(') => {
                self.advance()?;
                Ok(Operand::List(self.operands_until(b')', depth + 1)?))
            }
            Token::Punct(b'[') => {
                self.advance()?;
                let mut parts = self.operands_until(b']', depth + 1)?;
                let mut offset = 0;
                if let [Operand::Offset { name, offset: o }] = parts[..] {
                    offset = o;
                    parts[0] = Operand::Name { name, negated: false };
                }
                Ok(Operand::Address { parts, offset })
            }
            Token::Punct(b'!') => {
                self.advance()?;
                Ok(Operand::Name { name: self.word()?, negated: true })
            }
            Token::Word("_") => {
                self.advance()?;
                Ok(Operand::Sink)
            }
            Token::Word(name) => {
                self.advance()?;
                let offset = self.trailing_offset()?;
                Ok(if offset == 0 {
                    Operand::Name { name, negated: false }
                } else {
                    Operand::Offset { name, offset }
                })
            }
            Token::F32(bits) => {
                self.advance()?;
                Ok(Operand::F32(bits))
            }
            Token::F64(bits) => {
                self.advance()?;
                Ok(Operand::F64(bits))
            }
            Token::Punct(b'-') => {
                self.advance()?;
                match self.token {
                    Token::F64(bits) => {
                        self.advance()?;
                        Ok(Operand::F64(bits ^ (1 << 63)))
                    }
                    _ => Ok(Operand::Int(self.int()?.wrapping_neg())),
                }
            }
            Token::Int(_) => Ok(Operand::Int(self.constant()?)),
            _ => self.fail(format!("expected an operand, found {}", self.describe())),
        }
    }
}
