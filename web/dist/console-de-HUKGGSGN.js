import{a as p,c as m,la as o}from"./chunk-ANXQ37XA.js";m(p(o,null),document.getElementById("app"));
