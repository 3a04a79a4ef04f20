import{a as p,c as m,ia as o}from"./chunk-ZP4XKXI4.js";m(p(o,null),document.getElementById("app"));
