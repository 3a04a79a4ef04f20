import{a as p,c as m,ia as o}from"./chunk-PCBZRXOJ.js";m(p(o,null),document.getElementById("app"));
