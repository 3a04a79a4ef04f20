import{a as p,c as m,qa as o}from"./chunk-JZBK6VBX.js";m(p(o,null),document.getElementById("app"));
